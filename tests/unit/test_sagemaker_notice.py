"""Who may use how much of the two minutes between a job's notice and its end."""

from threading import Event
from typing import Any

import pytest

from autotune.errors import ExecutorError
from autotune.sagemaker.inside import cluster
from autotune.sagemaker.inside.child import KILL_S
from autotune.sagemaker.inside.notice import DISMISSED_S, RAY_S, SENT_S, STUDY_S, Notice

SAGEMAKER_S = 120.0


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_all_that_is_waited_for_fits_the_two_minutes() -> None:
    killed_s = STUDY_S + KILL_S
    assert killed_s < SENT_S < DISMISSED_S
    assert DISMISSED_S + RAY_S + KILL_S < SAGEMAKER_S
    # The head's Ray has ended before workers give up on it, so they hear of its end.
    assert SENT_S + RAY_S < DISMISSED_S


def test_it_counts_from_the_first_signal(clock: Clock) -> None:
    notice = Notice(clock)
    assert notice.left_s(STUDY_S) == float("inf")
    assert not notice.is_set()
    notice.set()
    clock.now_s += 30
    notice.set()
    assert notice.is_set()
    assert notice.left_s(STUDY_S) == STUDY_S - 30
    clock.now_s += 100
    assert notice.left_s(STUDY_S) == 0.0


def test_what_takes_too_long_is_left_behind(clock: Clock) -> None:
    notice, goes_on = Notice(clock), Event()

    def send() -> None:
        notice.set()
        clock.now_s += SENT_S
        goes_on.wait(60)

    assert not notice.bounded(send, SENT_S)
    goes_on.set()


def test_what_ends_is_waited_for_without_a_notice(clock: Clock) -> None:
    done: list[int] = []
    assert Notice(clock).bounded(lambda: done.append(1), SENT_S)
    assert done == [1]
    with pytest.raises(ExecutorError, match="no"):
        Notice(clock).bounded(fail, SENT_S)


def fail() -> None:
    raise ExecutorError("no")


class Silent:
    """A head that says nothing, while 40 s pass for each look."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.looks = 0

    def code(self, seconds: float) -> None:
        del seconds
        self.looks += 1
        self.clock.now_s += 40


class Alive:
    exit_code = None


def test_a_worker_doesnt_wait_longer_than_the_notice(clock: Clock) -> None:
    notice, head, node = Notice(clock), Silent(clock), Alive()
    notice.set()
    given: Any = (head, node)
    with pytest.raises(ExecutorError, match="its first host said nothing in time"):
        cluster._until_dismissed(*given, notice)
    assert head.looks == 3

"""How long a trial may be silent, by its own signs of life."""

import pytest

from autotune.executors.pace import Pace, Patience


def pace() -> Pace:
    return Pace(first_step_s=100.0, window_s=2.0, slack_s=20.0)


def test_nothing_is_expected_before_the_ranks_have_met() -> None:
    assert not pace().is_overdue(1e6)


def test_the_first_step_has_its_own_limit_however_far_building_has_come() -> None:
    one = pace()
    one.start(10.0)
    assert not one.is_overdue(109.0)
    one.step(100.0, 0)
    assert not one.is_overdue(199.0)
    assert one.is_overdue(201.0)


@pytest.mark.parametrize(
    ("step_s", "due_s"),
    [(0.1, 22.0), (2.0, 22.0), (30.0, 50.0)],
    ids=["fast", "as-a-window", "slow"],
)
def test_later_signs_are_due_by_the_slowest_so_far_and_twenty_seconds(
    step_s: float, due_s: float
) -> None:
    one = pace()
    one.start(0.0)
    for number in range(4):
        one.step(90.0 + number * step_s, number)
    now_s = 90.0 + 3 * step_s
    assert not one.is_overdue(now_s + due_s - 0.1)
    assert one.is_overdue(now_s + due_s + 0.1)


def test_a_first_step_that_compiles_makes_no_later_one_slow() -> None:
    one = pace()
    one.start(0.0)
    one.step(1.0, 0)
    one.step(91.0, 1)
    one.step(91.5, 2)
    assert one.expected_s == 2.0


def test_windows_count_as_steps_do_and_after_the_last_one_more_is_to_be_done() -> None:
    one = pace()
    one.start(0.0)
    one.window(50.0, is_last=False)
    assert one.expected_s == 2.0
    one.window(54.0, is_last=False)
    assert one.expected_s == 4.0
    one.window(58.0, is_last=True)
    assert one.expected_s == 40.0
    assert not one.is_overdue(58.0 + 59.0)
    assert one.is_overdue(58.0 + 61.0)


def test_the_clock_stands_still_while_the_launcher_does() -> None:
    clock = Patience()
    assert clock.turn(1000.0) == 0.0
    assert clock.turn(1000.5) == 0.5
    assert clock.turn(5000.0) == 2.5
    assert clock.turn(5000.1) == pytest.approx(2.6)

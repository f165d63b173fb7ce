"""The launcher's side of a warm parent, when somebody interrupts it."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from autotune.executors.rank_process import RankCommand
from autotune.executors.warm_process import WarmProcess


@pytest.fixture
def parent() -> Iterator[WarmProcess]:
    made = WarmProcess(os.environ, bare=True)
    made.wait_until_ready(Event())
    yield made
    made.close()


def command(folder: Path, rank: int) -> RankCommand:
    script = folder / "sleeps.py"
    script.write_text("import time\ntime.sleep(600)\n")
    return RankCommand(
        rank=rank, arguments=[sys.executable, str(script)], environment={},
        log_path=folder / f"{rank}.log", descriptors=(),
    )  # fmt: skip


def test_the_answer_to_an_interrupted_question_is_not_taken_for_the_next_ones(
    parent: WarmProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second Ctrl-C may come while a rank is being forked; the others are ended then."""

    def interrupted(timeout_s: float) -> None:
        raise KeyboardInterrupt

    first, second = command(tmp_path, 0), command(tmp_path, 1)
    rank = parent.fork(first, first.arguments[1:])
    with monkeypatch.context() as patch:
        patch.setattr(parent, "_receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            parent.fork(second, second.arguments[1:])
    assert not parent.alive
    deadline = time.monotonic() + 30
    while rank.exit_status() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert rank.exit_status() == -signal.SIGKILL
    assert rank.lost.endswith("and its ranks with it")

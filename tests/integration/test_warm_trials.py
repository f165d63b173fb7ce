"""Ranks that are forked: what they can see of each other, and what becomes of their parent."""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from autotune.executors import warm_process
from autotune.executors.base import Launch, LaunchEnd
from autotune.executors.local import RANK_COMMAND, LocalExecutor
from autotune.executors.rank_starter import RankStarter
from autotune.executors.watch import Limits
from autotune.model import (
    DeviceKind,
    Machine,
    MeasurementPlan,
    Outcome,
    TrainingSettings,
    TrialSpec,
)
from autotune.model.protocol import Verdict

FAKE = Path(__file__).parents[1] / "ranks" / "fake.py"
MACHINE = Machine(
    instance="local-test-4c", gpus=(), cpu="test", cores=4, memory_bytes=2**30, numa_nodes=1
)
LIMITS = Limits(start_s=30.0, cause_s=1.0, grace_s=0.5, exit_s=1.0, term_s=0.3)


def fake(behaviour: str) -> tuple[str, ...]:
    return (sys.executable, str(FAKE), behaviour)


def run(
    starter: RankStarter, folder: Path, behaviour: str, environment: dict[str, str] | None = None
) -> LaunchEnd:
    return launch(starter, folder, fake(behaviour), Event(), environment)


def executor_with(starter: RankStarter, command: tuple[str, ...]) -> LocalExecutor:
    return LocalExecutor(MACHINE, rank_command=command, limits=LIMITS, starter=starter)


def launch(
    starter: RankStarter,
    folder: Path,
    command: tuple[str, ...],
    cancel: Event,
    environment: dict[str, str] | None = None,
) -> LaunchEnd:
    return launch_by(executor_with(starter, command), folder, cancel, environment)


def launch_by(
    executor: LocalExecutor, folder: Path, cancel: Event, environment: dict[str, str] | None = None
) -> LaunchEnd:
    spec = TrialSpec(
        trial_id="t",
        workload="tiny",
        settings=TrainingSettings(micro_batch=1),
        device=DeviceKind.CPU,
        plan=MeasurementPlan(windows=1),
        environment=environment or {},
    )
    trial = Launch(spec=spec, nodes=1, ranks_per_node=2, directory=folder, time_limit_s=20)
    with pytest.MonkeyPatch.context() as patch:
        # It changes from test to test, and another environment is another warm parent.
        patch.delenv("PYTEST_CURRENT_TEST")
        return executor.run(trial, lambda _window: Verdict.GO, cancel)


@pytest.fixture(scope="module")
def loaded() -> Iterator[RankStarter]:
    """With everything imported that real ranks need."""
    starter = RankStarter()
    starter.prepare({n: v for n, v in os.environ.items() if n != "PYTEST_CURRENT_TEST"})
    yield starter
    starter.close()


@pytest.fixture
def bare() -> Iterator[RankStarter]:
    starter = RankStarter(bare=True)
    yield starter
    starter.close()


def parent_of(starter: RankStarter) -> int:
    assert starter.parent is not None
    return starter.parent.pid


def descriptors(pid: int | str) -> list[str]:
    return os.listdir(f"/proc/{pid}/fd")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def seen_by(folder: Path, rank: int) -> tuple[dict[str, Any], list[float]]:
    found = json.loads((folder / f"seen-{rank}.json").read_text())
    for name in ("MASTER_PORT", "AUTOTUNE_CHANNEL_FD", "AUTOTUNE_STORE_FD", "TMPDIR"):
        found["seen"]["environment"].pop(name, None)
    text = json.dumps(found["seen"]).replace(str(folder), "FOLDER")
    return json.loads(text), found["draws"]


def test_eight_trials_leave_nothing_for_the_next(loaded: RankStarter, tmp_path: Path) -> None:
    cold, first = tmp_path / "cold", tmp_path / "0"
    starter = RankStarter(cold=True)
    assert run(starter, cold, "look").outcome is Outcome.COMPLETED
    starter.close()
    assert run(loaded, first, "look").outcome is Outcome.COMPLETED
    parent = parent_of(loaded)
    before = (len(descriptors("self")), len(descriptors(parent)))
    draws = []
    for number in range(1, 9):
        folder = tmp_path / str(number)
        end = run(loaded, folder, "look", {"NCCL_ALGO": "Ring"} if number % 2 else {})
        assert end.outcome is Outcome.COMPLETED, end.reason
        for rank in (0, 1):
            seen, drawn = seen_by(folder, rank)
            assert seen["environment"].pop("NCCL_ALGO", None) == ("Ring" if number % 2 else None)
            assert seen == seen_by(cold, rank)[0], "like a fresh interpreter"
            draws += drawn
    assert len(set(draws)) == len(draws) == 32, "Python's numbers and NumPy's are all different"
    assert (len(descriptors("self")), len(descriptors(parent_of(loaded)))) == before
    assert parent_of(loaded) == parent
    assert len(os.listdir(f"/proc/{parent}/task")) == 1
    assert Path(f"/proc/{parent}/task/{parent}/children").read_text() == ""


def test_a_trial_whose_warm_parent_is_killed_is_nobodys_fault(
    bare: RankStarter, tmp_path: Path
) -> None:
    folder = tmp_path / "trial"

    def kill_once_they_wait() -> None:
        while len(list(folder.glob("waiting-*.pid"))) < 2:
            time.sleep(0.01)
        os.kill(parent_of(bare), signal.SIGKILL)

    thread = Thread(target=kill_once_they_wait)
    thread.start()
    began = time.monotonic()
    end = run(bare, folder, "wait_with_children")
    thread.join()
    assert time.monotonic() - began < 10, "ranks that outlive it are found at the time limit only"
    assert (end.outcome, end.failed_rank) == (Outcome.ENVIRONMENT, None)
    assert "was ended by SIGKILL, and its ranks with it" in end.reason
    pids = [int(path.read_text()) for path in folder.glob("*.pid")]
    assert len(pids) == 6
    assert not any(map(alive, pids))
    assert run(bare, tmp_path / "next", "complete").outcome is Outcome.COMPLETED
    assert bare.why_cold == ""


def test_a_warm_parent_that_is_stopped_is_replaced(
    bare: RankStarter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_process, "ANSWER_LIMIT_S", 0.5)
    assert run(bare, tmp_path / "0", "complete").outcome is Outcome.COMPLETED
    stopped = parent_of(bare)
    os.kill(stopped, signal.SIGSTOP)
    assert run(bare, tmp_path / "1", "complete").outcome is Outcome.COMPLETED
    assert not alive(stopped)
    assert bare.why_cold == ""


def test_ranks_are_forked_from_the_parent_that_was_waited_for(
    bare: RankStarter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    inner = RankStarter.get_ready

    def get_ready(starter: RankStarter, *given: Any) -> None:
        inner(starter, *given)
        assert starter.parent is not None
        assert starter.parent.ready
        waited.append(starter.parent.pid)

    monkeypatch.setattr(RankStarter, "get_ready", get_ready)
    end = run(bare, tmp_path, "complete", {"NCCL_ALGO": "Ring", "FAKE_MARK": "x"})
    assert (end.outcome, waited) == (Outcome.COMPLETED, [parent_of(bare)])
    assert end.prepared_s > 0


def test_another_interpreters_environment_is_another_parent(
    bare: RankStarter, tmp_path: Path
) -> None:
    run(bare, tmp_path / "0", "complete")
    first = parent_of(bare)
    run(bare, tmp_path / "1", "complete", {"NCCL_ALGO": "Ring", "OMP_NUM_THREADS": "3"})
    assert parent_of(bare) == first
    run(bare, tmp_path / "2", "complete", {"PYTHONHASHSEED": "1"})
    second = parent_of(bare)
    assert second != first
    # Rounds of confirmation go to and fro.
    run(bare, tmp_path / "3", "complete")
    assert parent_of(bare) == first
    run(bare, tmp_path / "4", "complete", {"PYTHONHASHSEED": "2"})
    assert parent_of(bare) not in (first, second)
    assert (alive(first), alive(second)) == (True, False)
    bare.close()
    assert not alive(first)


def test_only_the_first_imports_are_no_trials_time(bare: RankStarter, tmp_path: Path) -> None:
    """Those that a candidate's own variables want cost what a budget is for."""
    executor = executor_with(bare, fake("complete"))
    first = launch_by(executor, tmp_path / "0", Event())
    parent = parent_of(bare)
    other = launch_by(executor, tmp_path / "1", Event(), {"PYTHONHASHSEED": "1"})
    assert other.outcome is Outcome.COMPLETED
    assert parent_of(bare) != parent
    assert other.prepared_s < first.prepared_s / 5


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (
            "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()",
            "importing what a rank needs left 2 threads running",
        ),
        (
            "import os; os._exit(7)",
            r"the process that ranks are forked from, pid \d+, exited \(7\)",
        ),
    ],
    ids=["thread", "death"],
)
def test_without_a_warm_parent_ranks_start_cold(
    bare: RankStarter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: str,
    why: str,
) -> None:
    # Run by every interpreter that starts; ranks are to be spared.
    only = "import sys\nif 'autotune.trainers.warm_parent' in sys.orig_argv:\n    "
    (tmp_path / "sitecustomize.py").write_text(only + code)
    path = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{path}" if path else str(tmp_path))
    for number in range(2):
        end = run(bare, tmp_path / str(number), "complete")
        assert end.outcome is Outcome.COMPLETED
    assert bare.why_cold
    assert [r.message for r in caplog.records if "takes seconds" in r.message] == [
        f"every rank starts as a fresh interpreter, which takes seconds: {bare.why_cold}"
    ]
    assert re.fullmatch(why, bare.why_cold)


def test_what_is_no_python_program_starts_cold(bare: RankStarter, tmp_path: Path) -> None:
    command = ("/usr/bin/env", *fake("complete"))
    end = launch(bare, tmp_path / "trial", command, Event())
    assert end.outcome is Outcome.COMPLETED
    assert bare.why_cold == "only Python programs can be forked, not /usr/bin/env"


def test_an_environment_too_large_to_send_starts_cold(bare: RankStarter, tmp_path: Path) -> None:
    large = {f"NCCL_{number}": "x" * 100_000 for number in range(6)}
    assert run(bare, tmp_path / "trial", "complete", large).outcome is Outcome.COMPLETED
    assert bare.why_cold.endswith("is too large to be sent")


def test_a_cancelled_run_does_not_wait_for_imports(tmp_path: Path) -> None:
    starter = RankStarter()
    cancel = Event()
    starter.prepare(os.environ)
    Thread(target=lambda: (time.sleep(0.2), cancel.set())).start()
    began = time.monotonic()
    end = launch(starter, tmp_path / "trial", RANK_COMMAND, cancel)
    assert end.outcome is Outcome.CANCELLED
    assert time.monotonic() - began < 3
    parent = parent_of(starter)
    starter.close()
    assert not alive(parent)

"""The local executor with ranks that behave, and end, in every way that ranks can."""

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from autotune.errors import ExecutorError
from autotune.executors.base import Launch, LaunchEnd
from autotune.executors.local import LocalExecutor
from autotune.executors.rank_starter import RankStarter
from autotune.executors.watch import Limits
from autotune.model import (
    DeviceKind,
    Machine,
    MeasurementPlan,
    Outcome,
    TrainingSettings,
    TrialSpec,
    Window,
)
from autotune.model.protocol import Verdict

FAKE = Path(__file__).parents[1] / "ranks" / "fake.py"
MACHINE = Machine(
    instance="local-test-4c", gpus=(), cpu="test", cores=4, memory_bytes=2**30, numa_nodes=1
)
LIMITS = Limits(start_s=30.0, cause_s=1.0, grace_s=0.5, exit_s=1.0, term_s=0.3)
WINDOWS = 3


class Runner:
    """Runs one behaviour of the fake rank with two ranks."""

    def __init__(self, directory: Path, starter: RankStarter) -> None:
        self.directory = directory
        self.starter = starter
        self.windows: list[Window] = []
        self.cancel = Event()

    def __call__(
        self,
        behaviour: str,
        *,
        limits: Limits = LIMITS,
        time_limit_s: float = 20.0,
        verdict: Callable[[Window], Verdict] = lambda _window: Verdict.GO,
        environment: dict[str, str] | None = None,
        device: DeviceKind = DeviceKind.CPU,
        nodes: int = 1,
    ) -> LaunchEnd:
        def on_window(window: Window) -> Verdict:
            self.windows.append(window)
            return verdict(window)

        spec = TrialSpec(
            trial_id="t-0",
            workload="tiny",
            settings=TrainingSettings(micro_batch=1),
            environment=environment or {},
            device=device,
            plan=MeasurementPlan(windows=WINDOWS),
        )
        launch = Launch(
            spec=spec,
            nodes=nodes,
            ranks_per_node=2,
            directory=self.directory,
            time_limit_s=time_limit_s,
        )
        command = (sys.executable, str(FAKE), behaviour)
        executor = LocalExecutor(
            rank_command=command, machine=MACHINE, limits=limits, starter=self.starter
        )
        with pytest.MonkeyPatch.context() as patch:
            # It changes from test to test, and another environment is another warm parent.
            patch.delenv("PYTEST_CURRENT_TEST")
            return executor.run(launch, on_window, self.cancel)

    def recorded_pids(self) -> list[int]:
        # A file is empty for the moment between its making and its writing.
        texts = [path.read_text() for path in self.directory.glob("*.pid")]
        return [int(text) for text in texts if text]


@pytest.fixture(scope="module")
def starter(request: pytest.FixtureRequest) -> Iterator[RankStarter]:
    """Of forked ranks, unless the test asks for both; the fake rank needs nothing imported."""
    is_cold = getattr(request, "param", "warm") == "cold"
    starter = RankStarter(cold=is_cold, bare=True)
    yield starter
    starter.close()
    assert starter.why_cold == ("asked for" if is_cold else "")


cold_and_warm = pytest.mark.parametrize("starter", ["cold", "warm"], indirect=True, scope="module")
"""For what is in the hands of those who start and end processes; the rest is told in messages."""


@pytest.fixture
def run(tmp_path: Path, starter: RankStarter) -> Runner:
    return Runner(tmp_path / "trial", starter)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


@cold_and_warm
def test_a_trial_completes_with_its_windows_and_measurement(run: Runner) -> None:
    end = run("complete")
    assert end.outcome is Outcome.COMPLETED
    assert end.reason == ""
    assert end.failed_rank is None
    assert end.measurement is not None
    assert list(end.measurement.windows) == run.windows
    assert [window.index for window in run.windows] == [0, 1, 2]
    assert end.log_path == str(run.directory / "rank-0.log")


def test_stop_reaches_the_ranks_and_prunes_the_trial(run: Runner) -> None:
    end = run("complete", verdict=lambda w: Verdict.STOP if w.index == 1 else Verdict.GO)
    assert end.outcome is Outcome.PRUNED
    assert end.reason == "stopped after 2 of 3 windows"
    assert end.measurement is not None
    assert len(end.measurement.windows) == 2


def test_stop_at_the_last_window_leaves_a_complete_trial(run: Runner) -> None:
    end = run("complete", verdict=lambda w: Verdict.STOP if w.index == 2 else Verdict.GO)
    assert end.outcome is Outcome.COMPLETED


@cold_and_warm
def test_ranks_get_their_place_and_no_more(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "NCCL_COMM_ID", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "777")
    monkeypatch.setenv("KEPT", "as it was")
    secret = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        end = run("environment", environment={"NCCL_ALGO": "Ring"})
    finally:
        os.close(secret)
    assert end.outcome is Outcome.COMPLETED
    for rank in (0, 1):
        seen = json.loads((run.directory / f"environment-{rank}.json").read_text())
        assert seen["RANK"] == seen["LOCAL_RANK"] == str(rank)
        assert seen["WORLD_SIZE"] == seen["LOCAL_WORLD_SIZE"] == "2"
        assert seen["MASTER_ADDR"] == "127.0.0.1"
        assert seen["OMP_NUM_THREADS"] == "2"
        assert seen["NCCL_ALGO"] == "Ring"
        assert seen["KEPT"] == "as it was"
        assert not {"TORCHELASTIC_RUN_ID", "NCCL_COMM_ID"} & seen.keys()
        assert ("AUTOTUNE_STORE_FD" in seen) == (rank == 0)
        # The standard three, the channel, the folder being listed, and rank 0's store.
        fds = json.loads((run.directory / f"descriptors-{rank}.json").read_text())
        assert len(fds) == 5 + (rank == 0)
    assert (run.directory / "spec.json").stat().st_mode & 0o777 == 0o600
    assert (run.directory / "rank-1.log").stat().st_mode & 0o777 == 0o600


def test_the_candidate_may_set_the_number_of_threads(run: Runner) -> None:
    end = run("complete", environment={"OMP_NUM_THREADS": "3"})
    assert end.measurement is not None
    assert end.measurement.effective == {"threads": "3"}


def test_the_usual_port_may_be_taken(run: Runner) -> None:
    try:
        taken = socket.create_server(("127.0.0.1", 29500))
    except OSError:  # by somebody else, then
        taken = socket.socket()
    with taken:
        assert run("environment").outcome is Outcome.COMPLETED


def test_a_rank_that_raises_is_the_cause_and_the_other_is_not_waited_for(run: Runner) -> None:
    began = time.monotonic()
    end = run("one_raises")
    assert time.monotonic() - began < 10, "the other waits for minutes"
    assert (end.outcome, end.failed_rank) == (Outcome.CRASHED, 1)
    assert end.reason == "rank 1: Error: boom in the model"
    assert end.measurement is None
    assert end.log_path.endswith("rank-1.log")


def test_a_victim_that_speaks_first_is_not_the_cause(run: Runner) -> None:
    end = run("one_diverges_and_the_other_loses_it")
    assert (end.outcome, end.failed_rank) == (Outcome.DIVERGED, 1)


@cold_and_warm
def test_a_segmentation_fault_is_named(run: Runner) -> None:
    end = run("one_segfaults")
    assert (end.outcome, end.failed_rank) == (Outcome.CRASHED, 1)
    assert end.reason == "rank 1 was ended by SIGSEGV"
    assert "Fatal Python error: Segmentation fault" in end.log_tail


@cold_and_warm
def test_a_rank_killed_by_somebody_is_not_out_of_memory_without_evidence(run: Runner) -> None:
    end = run("one_is_killed")
    assert (end.outcome, end.failed_rank) == (Outcome.PREEMPTED, 1)
    assert end.reason.startswith("rank 1 was ended by SIGKILL, sent by")


@cold_and_warm
def test_what_fails_before_the_ranks_meet_is_the_machines_fault(run: Runner) -> None:
    end = run("import_error")
    assert end.outcome is Outcome.ENVIRONMENT
    assert "No module named 'torch'" in end.reason
    assert "exited with status 1" in end.reason


def test_a_rank_that_others_wait_for_in_vain_hangs(run: Runner) -> None:
    end = run("one_waits_in_vain")
    assert (end.outcome, end.failed_rank) == (Outcome.HUNG, 1)
    assert "rank 0 waited for" in end.reason


def test_no_result_although_all_ranks_exit_well(run: Runner) -> None:
    end = run("no_result")
    assert (end.outcome, end.failed_rank) == (Outcome.NO_METRIC, None)


@cold_and_warm
def test_a_rank_that_leaves_early_is_named(run: Runner) -> None:
    began = time.monotonic()
    end = run("one_leaves")
    assert time.monotonic() - began < 10, "the other waits for minutes"
    assert (end.outcome, end.failed_rank) == (Outcome.NO_METRIC, 1)
    assert end.reason == "rank 1 exited with status 0 before the trial had a result"


@cold_and_warm
def test_ranks_that_ignore_term_are_killed_at_the_time_limit(run: Runner) -> None:
    end = run("ignore_term", time_limit_s=2.0)
    assert end.outcome is Outcome.TIMED_OUT
    assert end.reason == "not done after 2 s, with 0 of 3 windows measured"
    pids = run.recorded_pids()
    assert len(pids) == 2
    assert not any(map(alive, pids))


@cold_and_warm
def test_children_that_a_rank_leaves_behind_are_ended(run: Runner) -> None:
    end = run("leave_children")
    assert end.outcome is Outcome.COMPLETED
    pids = run.recorded_pids()
    assert len(pids) == 4
    assert not any(map(alive, pids))


@pytest.mark.parametrize(
    ("environment", "outcome"),
    [({}, Outcome.ENVIRONMENT), ({"NCCL_SOCKET_IFNAME": "x"}, Outcome.HUNG)],
)
def test_ranks_that_never_start(run: Runner, environment: dict[str, str], outcome: Outcome) -> None:
    end = run("never_start", limits=Limits(start_s=0.5), environment=environment)
    assert (end.outcome, end.failed_rank) == (outcome, None)
    assert end.reason.endswith("had not met the others: 0, 1")


@cold_and_warm
def test_the_one_rank_that_never_starts_is_named(run: Runner) -> None:
    end = run("one_never_starts", limits=Limits(start_s=0.5))
    assert (end.outcome, end.failed_rank) == (Outcome.ENVIRONMENT, 1)


@cold_and_warm
def test_cancel_from_another_thread(run: Runner) -> None:
    times: list[float] = []

    def cancel_once_they_wait() -> None:
        while len(run.recorded_pids()) < 2:
            time.sleep(0.01)
        times.append(time.monotonic())
        run.cancel.set()

    thread = Thread(target=cancel_once_they_wait)
    thread.start()
    end = run("wait_forever")
    times.append(time.monotonic())
    thread.join()
    assert end.outcome is Outcome.CANCELLED
    # In 0.1 s where nothing else runs.
    assert times[1] - times[0] < 1.0
    assert len(run.recorded_pids()) == 2
    assert not any(map(alive, run.recorded_pids()))


def test_nothing_is_launched_for_a_run_that_is_cancelled_already(run: Runner) -> None:
    run.cancel.set()
    assert run("complete").outcome is Outcome.CANCELLED
    assert not run.directory.exists()


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        ("garbage", "rank 1 sent something that is no message"),
        ("wrong_types", "rank 1 sent something that is no message"),
        ("huge", "rank 1 sent a message longer than 16777216 bytes"),
        ("half_a_line", "rank 1 stopped in the middle of a message"),
        ("not_its_message", "rank 1 sent a message that isn't its to send"),
        ("flood", "rank 0 does not read the answers to its windows"),
    ],
)
def test_protocol_faults_are_the_ranks(run: Runner, behaviour: str, says: str) -> None:
    end = run(behaviour)
    assert end.outcome is Outcome.CRASHED
    assert end.reason.startswith(says)


def test_messages_may_come_in_pieces_and_together(run: Runner) -> None:
    assert run("slowly").outcome is Outcome.COMPLETED
    assert len(run.windows) == 3


def test_the_tail_of_a_log_full_of_bytes_is_text(run: Runner) -> None:
    end = run("binary_log")
    assert end.outcome is Outcome.CRASHED
    says = "exited with status 3; the last line of its log: last words"
    assert end.reason == f"rank {end.failed_rank} {says}"
    lines = end.log_tail.splitlines()
    assert len(lines) == 40
    assert lines[-1] == "last words"
    assert lines[-2] == "red \ufffd\ufffd end"


def test_what_goes_wrong_after_the_result_costs_nothing(run: Runner) -> None:
    assert run("shut_down_badly").outcome is Outcome.COMPLETED


@cold_and_warm
def test_ranks_that_stay_after_the_result_are_ended(run: Runner) -> None:
    began = time.monotonic()
    assert run("stay_after_result").outcome is Outcome.COMPLETED
    assert time.monotonic() - began < 10


@cold_and_warm
def test_ranks_are_ended_when_the_loop_fails(run: Runner) -> None:
    def fail(_window: Window) -> Verdict:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("leave_children", verdict=fail)
    pids = run.recorded_pids()
    assert len(pids) >= 2, "rank 0's children, and rank 1's if it was as fast"
    assert not any(map(alive, pids))


def test_a_folder_that_cannot_be_made_is_an_outcome(run: Runner) -> None:
    run.directory.write_text("a file")
    end = run("complete")
    assert end.outcome is Outcome.ENVIRONMENT
    assert str(run.directory) in end.reason


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"nodes": 2}, "has 1 node, 2 were asked for"),
        ({"device": DeviceKind.CUDA}, "2 ranks need a GPU each, this machine is: no GPU"),
    ],
)
def test_machines_that_cannot_launch_it(run: Runner, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ExecutorError, match=says):
        run("complete", **changes)
    assert not run.directory.exists()


@cold_and_warm
def test_no_descriptor_is_left_open(run: Runner) -> None:
    run("complete")
    before = os.listdir("/proc/self/fd")
    run("complete")
    run("one_raises")
    assert os.listdir("/proc/self/fd") == before

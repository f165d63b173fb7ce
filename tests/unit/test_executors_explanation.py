"""What logs and the kernel add to exit codes, signals and the ranks' own messages."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.executors.base import LaunchEnd
from autotune.executors.endings import decide
from autotune.executors.kernel_log import KernelLog
from autotune.executors.launch_facts import Halt, LaunchFacts, RankEnd
from autotune.model import Outcome
from autotune.model.protocol import Failed, FailureKind

XID = "NVRM: Xid (PCI:0000:10:1c): 79, pid=4711, name=python, GPU has fallen off the bus."
WATCHDOG = (
    "[E ProcessGroupNCCL.cpp:629] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 1 ms"
)


def rank(number: int, status: int, log: str = "", **changes: object) -> RankEnd:
    end = RankEnd(
        rank=number,
        exit_status=status,
        ended_by_us=False,
        started=True,
        trouble=number,
        log_path=f"rank-{number}.log",
        log_tail=log,
        log_end=log,
    )
    return replace(end, **changes)  # type: ignore[arg-type]


def said(exception: str, message: str, kind: FailureKind = FailureKind.ERROR) -> Failed:
    return Failed(rank=0, kind=kind, exception=exception, message=message, traceback="")


def end_of(*ranks: RankEnd, **changes: object) -> LaunchEnd:
    facts = LaunchFacts(
        ranks=ranks,
        measurement=None,
        windows=1,
        planned_windows=2,
        stopped=False,
        halt=None,
        seconds=12.4,
        has_environment=False,
        oom_kills=0,
    )
    return decide(replace(facts, **changes))  # type: ignore[arg-type]


def test_a_signal_is_explained_by_the_ranks_own_log() -> None:
    log = "RuntimeError: CUDA error: uncorrectable ECC error encountered\nterminate called"
    end = end_of(rank(0, -6, log), rank(1, -15, ended_by_us=True))
    assert (end.outcome, end.failed_rank) == (Outcome.ENVIRONMENT, 0)
    assert end.reason.startswith("rank 0 was ended by SIGABRT: the GPU's memory or its NVLink")
    assert end.reason.endswith("run again on another node")


def test_an_exit_status_is_explained_by_the_ranks_own_log() -> None:
    end = end_of(rank(0, 1, "node-a:1:2 [0] x NCCL WARN Bootstrap : no socket interface found"))
    assert end.outcome is Outcome.INVALID_KNOB
    assert end.reason.startswith("rank 0 exited with status 1: NCCL_SOCKET_IFNAME matches no")


def test_another_ranks_log_says_nothing_of_a_signal() -> None:
    other = rank(1, -15, "torch.OutOfMemoryError: CUDA out of memory", ended_by_us=True)
    end = end_of(rank(0, -11), other)
    assert (end.outcome, end.reason) == (Outcome.CRASHED, "rank 0 was ended by SIGSEGV")


def test_a_watchdog_that_aborts_its_rank_waited_for_another() -> None:
    end = end_of(rank(0, -6, WATCHDOG.format(0)), rank(1, -15, "step 3", ended_by_us=True))
    assert (end.outcome, end.failed_rank) == (Outcome.HUNG, 1)
    assert end.reason.startswith("rank 1: it logged no timeout while rank 0 waited in collective 5")


def test_watchdogs_that_waited_for_each_other_leave_the_cause_open() -> None:
    end = end_of(rank(0, -6, WATCHDOG.format(0)), rank(1, -6, WATCHDOG.format(1)))
    assert (end.outcome, end.failed_rank) == (Outcome.HUNG, None)
    assert "rank 0 was ended by SIGABRT" in end.reason


def test_the_kernels_count_of_killed_processes_comes_before_the_log() -> None:
    log = "OSError: [Errno 28] No space left on device"
    assert end_of(rank(0, -9, log), oom_kills=1).outcome is Outcome.OUT_OF_MEMORY
    assert end_of(rank(0, -9, log)).outcome is Outcome.ENVIRONMENT


def test_a_message_comes_before_the_log() -> None:
    log = "torch.OutOfMemoryError: CUDA out of memory, handled"
    end = end_of(rank(0, 1, log, failed=said("ValueError", "bad")))
    assert (end.outcome, end.reason) == (Outcome.CRASHED, "rank 0: ValueError: bad")


@pytest.mark.parametrize("name", ["", "RankError"])
def test_a_script_that_ends_early_is_told_without_our_own_names(name: str) -> None:
    early = said(name, "train.py ended after 3 optimizer steps", FailureKind.NO_METRIC)
    end = end_of(rank(0, 1, failed=early), rank(1, 0))
    assert end.outcome is Outcome.NO_METRIC
    assert end.reason.startswith("rank 0: train.py ended after 3 optimizer steps")


def test_a_loss_that_is_not_finite_is_told_of_its_own_rank_alone() -> None:
    """All ranks say the same of it: whose message came first means nothing."""
    message = "the loss of step 0 is nan on rank 0"
    failed = said("RankError", message, FailureKind.NON_FINITE)
    end = end_of(rank(1, 1, failed=failed))
    assert end.outcome is Outcome.DIVERGED
    assert end.reason.startswith(message)


def test_a_vague_message_is_explained_by_the_log() -> None:
    message = "NCCL error in: x.cpp:1, unhandled cuda error, NCCL version 2.20.5"
    failed = said("DistBackendError", message)
    log = "node-a:1:2 [0] alloc.h:57 NCCL WARN Failed to CUDA calloc 6291456 bytes"
    end = end_of(rank(0, 1, log, failed=failed))
    assert end.outcome is Outcome.OUT_OF_MEMORY
    assert end.reason.startswith("rank 0: DistBackendError: NCCL error in")
    assert "; lower NCCL_BUFFSIZE" in end.reason
    assert end_of(rank(0, 1, "", failed=failed)).outcome is Outcome.CRASHED


def test_a_vague_failure_is_never_the_machines() -> None:
    """A candidate can provoke it each time, and the study would be given up."""
    message = "NCCL error in: x.cpp:1, unhandled system error, NCCL version 2.20.5"
    end = end_of(rank(0, 1, failed=said("DistBackendError", message)))
    assert end.outcome is Outcome.CRASHED


def test_a_message_ends_with_what_to_do() -> None:
    message = "CUDA out of memory. " + "x" * 10**6
    failed = said("OutOfMemoryError", message, FailureKind.OUT_OF_MEMORY)
    reason = end_of(rank(0, 1, failed=failed)).reason
    assert len(reason) <= 500
    assert "…; use a smaller micro-batch" in reason


def waiting(number: int, log: str = "") -> RankEnd:
    failed = said("RuntimeError", "Connection closed by peer", FailureKind.COLLECTIVE)
    return rank(number, 1, log, failed=replace(failed, rank=number))


def test_a_log_names_what_all_ranks_waited_for() -> None:
    log = "OSError: [Errno 28] No space left on device"
    end = end_of(waiting(0), rank(1, -15, log, ended_by_us=True, trouble=None))
    assert (end.outcome, end.failed_rank) == (Outcome.ENVIRONMENT, 1)
    assert end.reason.startswith(f"rank 1: a disk, /dev/shm or a quota is full: {log}; free space")
    silent = end_of(waiting(0), rank(1, -15, "step 3", ended_by_us=True, trouble=None))
    assert (silent.outcome, silent.failed_rank) == (Outcome.HUNG, 1)


def test_a_log_names_why_ranks_never_met() -> None:
    log = "RuntimeError: [device.cc:83] ifa != nullptr. Unable to find address for: eth7"
    ranks = [rank(n, -15, log, ended_by_us=True, started=False, trouble=None) for n in (0, 1)]
    end = end_of(*ranks, halt=Halt.NEVER_STARTED)
    assert (end.outcome, end.failed_rank) == (Outcome.INVALID_KNOB, 0)


@pytest.mark.parametrize("status", [-11, 1])
def test_a_gpu_that_failed_is_why_ranks_crashed(status: int) -> None:
    end = end_of(rank(0, status, "x"), kernel_log=f"usb 1-1: new device\n{XID}")
    assert (end.outcome, end.failed_rank) == (Outcome.ENVIRONMENT, 0)
    assert end.reason.startswith("a GPU has fallen off the bus (Xid 79), says the kernel: NVRM:")


def test_the_kernel_does_not_change_what_is_told_otherwise() -> None:
    failed = said("OutOfMemoryError", "CUDA out of memory", FailureKind.OUT_OF_MEMORY)
    assert end_of(rank(0, 1, failed=failed), kernel_log=XID).outcome is Outcome.OUT_OF_MEMORY
    secondary = XID.replace("79", "43").partition(" GPU")[0]
    assert end_of(rank(0, -11), kernel_log=secondary).outcome is Outcome.CRASHED
    other = "Out of memory: Killed process 99 (chrome) total-vm:9kB, anon-rss:9kB"
    assert end_of(rank(0, -11), kernel_log=other).outcome is Outcome.CRASHED


def test_the_kernels_log_is_followed_record_by_record(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(b"6,1,1,-;before\n")
    with KernelLog(path) as log:
        with path.open("ab") as file:
            file.write(f"4,2,2,-;{XID}\n SUBSYSTEM=pci\n".encode())
        assert log.text() == XID
        assert log.text() == ""


def test_a_kernels_log_that_may_not_be_read_says_nothing(tmp_path: Path) -> None:
    with KernelLog(tmp_path / "nowhere") as log:
        assert log.text() == ""
    os.mkfifo(tmp_path / "fifo")
    with KernelLog(tmp_path / "fifo") as log:
        assert log.text() == ""
    with KernelLog() as log:
        log.text()


@pytest.mark.parametrize("log", ["", "KeyboardInterrupt"])
def test_a_rank_cannot_cancel_its_trial(log: str) -> None:
    interrupted = said("KeyboardInterrupt", "") if not log else None
    end = end_of(rank(0, 1, log, failed=interrupted))
    assert end.outcome is Outcome.CRASHED
    assert end.failed_rank == 0


def test_a_script_that_exits_has_its_own_last_words_in_the_reason() -> None:
    log = (
        "usage: train.py [-h] [--bucket BUCKET]\n"
        "train.py: error: argument --bucket: invalid int value: 'none'\n"
        "Traceback (most recent call last):\n"
        '  File "argparse.py", line 2536, in _get_value\n'
        "ValueError: invalid literal for int() with base 10: 'none'\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "argparse.py", line 2640, in exit\n'
        "SystemExit: 2\n"
    )
    end = end_of(rank(0, 1, log, failed=said("SystemExit", "2 (train.py:18, in main)")))
    assert end.outcome is Outcome.CRASHED
    assert end.reason == (
        "rank 0: SystemExit: 2 (train.py:18, in main); it said: "
        "train.py: error: argument --bucket: invalid int value: 'none'"
    )
    other = end_of(rank(0, 1, log, failed=said("ValueError", "no")))
    assert "it said" not in other.reason

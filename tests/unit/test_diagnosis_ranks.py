"""Several ranks in one log or many: the root cause before its victims."""

import pytest

from autotune.diagnosis import Diagnosis, Log, diagnose
from autotune.model import Outcome

OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
PEER = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4"


def timeout(rank: int, sequence: int = 5, call: str = "ALLREDUCE", numel: int = 1024) -> str:
    return (
        f"[rank{rank}]:[E1218 20:27:21.42 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught "
        f"collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType={call}, "
        f"NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for 600081 milliseconds "
        "before timing out."
    )


def counts(rank: int, enqueued: int, completed: int) -> str:
    return (
        f"[rank{rank}]:[E1218 20:27:21.43 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID "
        f"0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: 5 PG "
        f"status: last enqueued work: {enqueued}, last completed work: {completed}"
    )


def summary(*entries: tuple[int, str]) -> str:
    """torchrun's summary; the last entry is the root."""
    shown = [
        f"[{index}]:\n  time      : 2026-03-12_14:17:56\n  host      : node-{rank}\n"
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: 4711)\n"
        f"  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org"
        for index, (rank, code) in enumerate(entries)
    ]
    others = "\n".join(shown[:-1]) or "  <NO_OTHER_FAILURES>"
    border, section = "=" * 40, "-" * 40
    root = f"Root Cause (first observed failure):\n{shown[-1]}"
    return f"{border}\ntrain.py FAILED\n{section}\nFailures:\n{others}\n{section}\n{root}\n{border}"


def of(*lines: str) -> Diagnosis:
    found = diagnose([Log.of("\n".join(lines))])
    assert found is not None
    return found


def of_ranks(*texts: str) -> Diagnosis:
    logs = [Log.of(text, name=f"rank-{rank}.log", rank=rank) for rank, text in enumerate(texts)]
    found = diagnose(logs)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "victim",
    [
        f"[rank0]: {PEER}",
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process "
        "exited or there was a network error, NCCL version 2.18.1",
        timeout(0),
        "[rank0]: RuntimeError: Broken pipe",
        "W1129 14:17:56.1 4710 api.py:898] Sending process 4711 closing signal SIGTERM",
    ],
)
def test_a_victim_that_speaks_first_is_not_the_cause(victim: str) -> None:
    found = of(victim, f"[rank1]: {OUT_OF_MEMORY}")
    assert (found.outcome, found.rank) == (Outcome.OUT_OF_MEMORY, 1)
    assert 1 not in found.victims
    assert found.line == 2


def test_of_ranks_with_logs_of_their_own() -> None:
    found = of_ranks(PEER, OUT_OF_MEMORY, "ok", "RuntimeError: Broken pipe")
    assert (found.rank, found.log, found.victims) == (1, "rank-1.log", (0, 3))
    assert found.cause.startswith("the GPU's memory ran out")


def test_what_is_written_first_is_the_cause_of_what_follows() -> None:
    found = of(
        "[rank1]: OSError: [Errno 28] No space left on device",
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory.",
    )
    assert (found.signature, found.rank) == ("disk-full", 1)


def test_the_machine_is_the_cause_of_what_programs_say() -> None:
    kernel = "[ 1234.567890] NVRM: Xid (PCI:0000:10:1c): 79, GPU has fallen off the bus."
    found = of("[rank1]: RuntimeError: CUDA error: unspecified launch failure", kernel)
    assert (found.outcome, found.signature) == (Outcome.ENVIRONMENT, "xid-off-the-bus")


def test_a_machine_that_fails_is_no_rank_of_torchruns() -> None:
    kernel = "[ 1234.567890] NVRM: Xid (PCI:0000:10:1c): 79, GPU has fallen off the bus."
    assert of(kernel, summary((1, "1"))).rank is None


def test_torchruns_first_rank_counts_before_one_that_is_logged_first() -> None:
    full = "[rank0]: OSError: [Errno 28] No space left on device"
    found = of(full, f"[rank1]: {OUT_OF_MEMORY}", summary((0, "1"), (1, "1")))
    assert (found.outcome, found.rank) == (Outcome.OUT_OF_MEMORY, 1)


TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 3\nValueError: bad'


def test_of_symptoms_the_more_specific_counts() -> None:
    found = of(TRACEBACK, "Fatal Python error: Segmentation fault")
    assert found.signature == "segmentation-fault"


def test_a_rank_that_torchrun_killed_after_the_first_is_not_the_cause() -> None:
    found = of(TRACEBACK, summary((1, "-9"), (0, "1")))
    assert (found.signature, found.rank) == ("exception", 0)


def test_a_symptom_is_explained_by_a_clue() -> None:
    fallback = "node-a:79:79 [0] x:180 NCCL WARN NET/OFI No eligible providers were found"
    assert diagnose([Log.of(fallback)]) is None
    failed = "DistBackendError: NCCL error in: x.hpp:275, invalid usage, NCCL version 2.20.5"
    assert of(fallback, failed).signature == "efa-no-provider"


def test_the_summary_of_torchrun_names_the_rank() -> None:
    found = of(PEER, OUT_OF_MEMORY, summary((0, "1"), (1, "1")))
    assert (found.outcome, found.rank) == (Outcome.OUT_OF_MEMORY, 1)


def test_a_rank_ended_by_sigterm_is_a_victim() -> None:
    found = of(summary((0, "-15"), (2, "-15"), (1, "-11")))
    assert (found.signature, found.rank, found.host) == ("segmentation-fault", 1, "node-1")
    assert found.victims == (0, 2)


def test_an_abort_that_torchrun_sees_first_is_not_the_root_of_an_unranked_cause() -> None:
    found = of(timeout(0), OUT_OF_MEMORY, summary((0, "-6")))
    assert (found.outcome, found.rank) == (Outcome.OUT_OF_MEMORY, None)


def test_a_victims_exit_is_no_symptom() -> None:
    found = of(f"[rank0]: {PEER}", summary((1, "-9"), (0, "1")))
    assert (found.signature, found.rank) == ("killed", 1)


def test_only_victims_have_no_cause() -> None:
    found = of(f"[rank0]: {PEER}", summary((0, "1")))
    assert not found.is_root
    assert found.rank == 0


def test_a_crash_elsewhere_is_why_a_rank_waited() -> None:
    found = of(timeout(0), "[rank1]: Fatal Python error: Segmentation fault")
    assert (found.outcome, found.rank) == (Outcome.CRASHED, 1)


def test_a_rank_aborted_by_its_watchdog_waited() -> None:
    found = of(timeout(0), timeout(1), summary((0, "-6"), (1, "-6")))
    assert found.outcome is Outcome.HUNG


def test_the_rank_that_logs_no_timeout_is_behind() -> None:
    found = of("[rank2]: step 3", timeout(0), timeout(1))
    assert (found.outcome, found.rank, found.victims) == (Outcome.HUNG, 2, (0, 1))
    assert found.cause == (
        "it logged no timeout while ranks 0, 1 waited in collective 5 (ALLREDUCE of 1024 elements)"
    )


def test_the_rank_that_called_less_is_behind() -> None:
    found = of(
        timeout(0), counts(0, 7, 4), timeout(1), counts(1, 5, 4), timeout(2), counts(2, 7, 4)
    )
    assert (found.rank, found.cause) == (1, "it had enqueued collective 5, others 7")
    assert found.victims == (0, 2)


def test_the_rank_that_completed_less_is_behind() -> None:
    found = of(timeout(0), counts(0, 7, 6), timeout(1), counts(1, 7, 4))
    assert (found.rank, found.cause) == (1, "it had completed collective 4, others 6")


def test_ranks_in_different_collectives_are_named() -> None:
    found = of(timeout(0), timeout(1, call="BROADCAST", numel=7))
    assert found.rank is None
    assert "rank 0 ALLREDUCE of 1024 elements and rank 1 BROADCAST of 7 elements" in found.cause


def test_ranks_that_are_alike_leave_the_culprit_open() -> None:
    found = of(timeout(0), timeout(1))
    assert found.rank is None
    assert found.cause.startswith("ranks 0, 1 waited in vain in collective 5")


def test_a_silent_rank_is_named_without_a_watchdog() -> None:
    waited = "RuntimeError: [x.cc:81] Timed out waiting 1800000ms for recv operation to complete"
    found = of_ranks(waited, "step 3")
    assert (found.outcome, found.rank) == (Outcome.HUNG, 1)


def test_numbers_of_steps_are_no_ranks() -> None:
    found = of("1: loss 3.4", "2: loss 3.3", timeout(0))
    assert found.rank is None


def test_a_rank_that_came_too_late_is_the_one_that_others_waited_for() -> None:
    waited = "[rank0]: RuntimeError: [x.cc:78] Timed out waiting 20000ms for recv operation to "
    found = of(f"{waited}complete", summary((1, "-15"), (0, "1")))
    assert (found.outcome, found.rank, found.victims) == (Outcome.HUNG, 1, (0,))
    three = of(f"{waited}complete", f"[rank1]: {PEER}", f"[rank2]: {PEER}")
    assert (three.outcome, three.rank) == (Outcome.HUNG, None)


def test_an_exception_is_quoted_not_its_traceback() -> None:
    found = of(
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "train.py", line 3, in <module>',
        "[rank0]: step 3",
        "[rank1]:     main()",
        "[rank1]: shapes.Mismatch: 3 and 4",
    )
    assert (found.rank, found.quote, found.line) == (1, "shapes.Mismatch: 3 and 4", 5)


def test_a_traceback_that_is_cut_is_quoted_itself() -> None:
    found = of("Traceback (most recent call last):", '  File "train.py", line 3, in <module>')
    assert (found.signature, found.line) == ("exception", 1)


def test_lines_keep_their_numbers_after_a_gap() -> None:
    log = Log(name="big.log", parts=((1, "a\nb\n"), (1001, f"c\r\nd\n{OUT_OF_MEMORY}\n")))
    found = diagnose([log])
    assert found is not None
    assert (found.log, found.line) == ("big.log", 1003)

"""From what was seen of the ranks to the outcome, the cause and the sentence."""

import signal
from dataclasses import replace

import pytest

from autotune.executors.endings import decide
from autotune.executors.launch_facts import Halt, LaunchFacts, NodeLoss, RankEnd
from autotune.executors.standing import Frame, Standing
from autotune.model import Measurement, Outcome, Window
from autotune.model.protocol import Failed, FailureKind

WINDOW = Window(index=0, steps=1, samples=1, seconds=1.0)
MEASUREMENT = Measurement(
    windows=(WINDOW, WINDOW),
    warmup_steps=1,
    settled=True,
    communication_share=None,
    build_s=0.1,
    warmup_s=0.1,
    losses=(1.0,),
    gradient_norms=(1.0,),
    peak_memory_bytes=(1, 1),
    allocator_retries=0,
    parameters=1,
    effective={},
    versions={},
)


def rank(number: int, **changes: object) -> RankEnd:
    """A rank that started and exited well."""
    end = RankEnd(
        rank=number,
        exit_status=0,
        ended_by_us=False,
        started=True,
        log_path=f"rank-{number}.log",
        log_tail=f"log of {number}",
    )
    return replace(end, **changes)  # type: ignore[arg-type]


def ended(number: int, **changes: object) -> RankEnd:
    """A rank that ran until the launcher ended it."""
    return rank(number, **{"exit_status": -15, "ended_by_us": True, **changes})


def failed(number: int, kind: FailureKind, trouble: int, **changes: object) -> RankEnd:
    """A rank that said why it failed."""
    message = Failed(rank=number, kind=kind, exception="Boom", message="why\n it was", traceback="")
    values = {"exit_status": 1, "failed": message, "trouble": trouble}
    return rank(number, **{**values, **changes})


def facts(*ranks: RankEnd, **changes: object) -> LaunchFacts:
    base = LaunchFacts(
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
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (FailureKind.OUT_OF_MEMORY, Outcome.OUT_OF_MEMORY),
        (FailureKind.INVALID_KNOB, Outcome.INVALID_KNOB),
        (FailureKind.COLLECTIVE, Outcome.HUNG),
        (FailureKind.NON_FINITE, Outcome.DIVERGED),
        (FailureKind.ENVIRONMENT, Outcome.ENVIRONMENT),
        (FailureKind.ERROR, Outcome.CRASHED),
    ],
)
def test_what_a_rank_says_decides_the_outcome(kind: FailureKind, outcome: Outcome) -> None:
    end = decide(facts(failed(0, kind, 0), failed(1, kind, 1)))
    assert (end.outcome, end.failed_rank, end.log_tail) == (outcome, 0, "log of 0")
    assert "why it was" in end.reason.replace("\\n", "")


def test_the_first_failure_is_the_cause() -> None:
    first = failed(1, FailureKind.OUT_OF_MEMORY, 0)
    end = decide(facts(failed(0, FailureKind.ERROR, 1), first))
    assert (end.outcome, end.failed_rank) == (Outcome.OUT_OF_MEMORY, 1)
    assert end.reason == "rank 1: Boom: why it was"
    assert end.log_path == "rank-1.log"


@pytest.mark.parametrize(
    "cause",
    [
        failed(1, FailureKind.ERROR, 1),
        rank(1, exit_status=-11, trouble=1),
        rank(1, exit_status=1, trouble=1),
        ended(1, fault="sent nonsense", trouble=1),
    ],
)
def test_a_rank_that_lost_its_peers_is_a_victim(cause: RankEnd) -> None:
    end = decide(facts(failed(0, FailureKind.COLLECTIVE, 0), cause))
    assert (end.outcome, end.failed_rank) == (Outcome.CRASHED, 1)


def test_ranks_that_lost_a_node_are_its_victims() -> None:
    loss = NodeLoss(outcome=Outcome.PREEMPTED, reason="b (10.0.0.2) went away")
    lost = rank(1, exit_status=None, lost="b (10.0.0.2) is gone")
    seen = facts(failed(0, FailureKind.ERROR, 0), lost, loss=loss)
    assert (decide(seen).outcome, decide(seen).reason) == (Outcome.PREEMPTED, loss.reason)
    assert decide(replace(seen, loss=None)).outcome is Outcome.CRASHED


def test_a_node_that_is_lost_after_the_result_costs_nothing() -> None:
    loss = NodeLoss(outcome=Outcome.PREEMPTED, reason="gone")
    assert decide(facts(rank(0), rank(1), measurement=MEASUREMENT, loss=loss)).outcome in (
        Outcome.COMPLETED,
        Outcome.PRUNED,
    )


def test_a_rank_that_the_launcher_ended_is_a_victim() -> None:
    end = decide(facts(ended(0), rank(1, exit_status=-6, trouble=0)))
    assert (end.failed_rank, end.reason) == (1, "rank 1 was ended by SIGABRT")


def test_a_rank_that_died_while_the_launcher_was_at_it_counts() -> None:
    end = decide(facts(rank(0), rank(1, exit_status=-11)))
    assert (end.outcome, end.failed_rank) == (Outcome.CRASHED, 1)


def test_the_silent_rank_hangs_not_the_one_that_waited() -> None:
    end = decide(facts(failed(0, FailureKind.COLLECTIVE, 0), ended(1)))
    assert (end.outcome, end.failed_rank) == (Outcome.HUNG, 1)
    assert end.reason.startswith("rank 1 took no part in a collective that rank 0 waited for: ")


def test_a_rank_that_left_well_is_the_cause_for_those_that_waited() -> None:
    end = decide(facts(failed(0, FailureKind.COLLECTIVE, 0), rank(1)))
    assert (end.outcome, end.failed_rank) == (Outcome.NO_METRIC, 1)


def test_sigkill_is_out_of_memory_only_when_the_kernel_counted_one() -> None:
    ranks = (ended(0), rank(1, exit_status=-signal.SIGKILL, trouble=0))
    end = decide(facts(*ranks, oom_kills=1))
    assert (end.outcome, end.failed_rank) == (Outcome.OUT_OF_MEMORY, 1)
    assert "killed (SIGKILL), most likely by the kernel's out-of-memory killer" in end.reason
    killed = "NVRM: loaded\nMemory cgroup out of memory: Killed process 4712 (python)"
    assert decide(facts(*ranks, kernel_log=killed)).outcome is Outcome.OUT_OF_MEMORY


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_rank_ended_from_outside_says_nothing_of_its_candidate(number: signal.Signals) -> None:
    end = decide(facts(ended(0), rank(1, exit_status=-number, trouble=0)))
    assert (end.outcome, end.failed_rank) == (Outcome.PREEMPTED, 1)
    assert end.reason.startswith(f"rank 1 was ended by {number.name}, sent by a person, ")
    said = failed(1, FailureKind.ERROR, 0, exit_status=-number)
    assert decide(facts(ended(0), said)).outcome is Outcome.CRASHED
    terminated = rank(1, exit_status=-signal.SIGTERM, trouble=0)
    assert decide(facts(ended(0), terminated, oom_kills=1)).outcome is Outcome.PREEMPTED


def test_an_unknown_signal_has_a_number() -> None:
    assert decide(facts(rank(0, exit_status=-40))).reason == "rank 0 was ended by signal 40"


def test_an_exit_status_is_explained_by_the_log() -> None:
    end = decide(facts(rank(0, exit_status=3, log_tail="a\nlast\n\n")))
    assert end.outcome is Outcome.CRASHED
    assert end.reason == "rank 0 exited with status 3; the last line of its log: last"
    silent = decide(facts(rank(0, exit_status=3, log_tail="", started=False)))
    assert silent.outcome is Outcome.ENVIRONMENT
    assert silent.reason == "rank 0 exited with status 3"


def test_a_long_message_is_cut() -> None:
    long = Failed(
        rank=0, kind=FailureKind.ERROR, exception="Boom", message="x" * 10**6, traceback=""
    )
    assert len(decide(facts(rank(0, exit_status=1, failed=long))).reason) == 500


def test_a_measurement_completes_the_trial() -> None:
    end = decide(facts(rank(0), rank(1), measurement=MEASUREMENT))
    assert (end.outcome, end.reason, end.measurement) == (Outcome.COMPLETED, "", MEASUREMENT)


def test_a_measurement_cut_short_by_stop_is_pruned() -> None:
    changes = {"measurement": MEASUREMENT, "stopped": True}
    end = decide(facts(rank(0), planned_windows=5, **changes))
    assert (end.outcome, end.reason) == (Outcome.PRUNED, "stopped after 2 of 5 windows")
    assert end.measurement is MEASUREMENT
    assert decide(facts(rank(0), planned_windows=2, **changes)).outcome is Outcome.COMPLETED


@pytest.mark.parametrize("halt", [None, Halt.CANCEL])
@pytest.mark.parametrize(
    "late",
    [
        rank(1, exit_status=-6, trouble=0, trouble_after_result=True),
        failed(1, FailureKind.COLLECTIVE, 0, trouble_after_result=True),
        ended(1),
    ],
)
def test_trouble_after_the_result_costs_nothing(late: RankEnd, halt: Halt | None) -> None:
    end = decide(facts(rank(0), late, measurement=MEASUREMENT, halt=halt))
    assert end.outcome is Outcome.COMPLETED


def test_what_a_rank_says_counts_even_after_the_result() -> None:
    late = failed(1, FailureKind.NON_FINITE, 0, trouble_after_result=True)
    end = decide(facts(rank(0), late, measurement=MEASUREMENT))
    assert (end.outcome, end.measurement) == (Outcome.DIVERGED, None)


def test_death_before_the_result_is_a_crash_although_there_is_one() -> None:
    early = rank(1, exit_status=-11, trouble=0)
    end = decide(facts(rank(0), early, measurement=MEASUREMENT))
    assert end.outcome is Outcome.CRASHED


def test_cancelled_even_if_ranks_fail_while_it_ends() -> None:
    end = decide(facts(ended(0), rank(1, exit_status=1, trouble=0), halt=Halt.CANCEL))
    assert (end.outcome, end.failed_rank) == (Outcome.CANCELLED, None)


def test_the_time_limit_says_how_far_it_came() -> None:
    end = decide(facts(ended(0), ended(1), halt=Halt.TIME_LIMIT))
    assert end.outcome is Outcome.TIMED_OUT
    assert end.reason == "not done after 12 s, with 1 of 2 windows measured"


def test_ranks_that_never_start_name_the_missing() -> None:
    ranks = (ended(0), ended(1, started=False), ended(2, started=False))
    end = decide(facts(*ranks, halt=Halt.NEVER_STARTED))
    assert (end.outcome, end.failed_rank) == (Outcome.ENVIRONMENT, 1)
    assert end.reason == "after 12 s these ranks had not met the others: 1, 2"


def test_a_candidate_with_variables_may_be_why_ranks_never_meet() -> None:
    ranks = (ended(0, started=False), ended(1, started=False))
    end = decide(facts(*ranks, halt=Halt.NEVER_STARTED, has_environment=True))
    assert (end.outcome, end.failed_rank) == (Outcome.HUNG, None)


def test_all_exit_well_without_a_result() -> None:
    end = decide(facts(rank(0), rank(1)))
    assert (end.outcome, end.failed_rank) == (Outcome.NO_METRIC, None)
    assert end.log_path == "rank-0.log"


def test_a_process_that_cannot_be_killed_is_the_machines_fault() -> None:
    stuck = ended(1, exit_status=None)
    end = decide(facts(rank(0), stuck, survivors=(4242,), measurement=MEASUREMENT))
    assert (end.outcome, end.failed_rank) == (Outcome.ENVIRONMENT, 1)
    assert "pid 4242" in end.reason


def test_ranks_that_died_with_their_parent_are_nobodys_fault() -> None:
    lost = {"exit_status": -9, "lost": "the parent died", "trouble": 0}
    end = decide(facts(rank(0, **lost), rank(1, **lost, fault="stopped in a message")))
    assert (end.outcome, end.failed_rank) == (Outcome.ENVIRONMENT, None)
    assert end.reason == "the parent died"


def test_what_a_rank_said_before_its_parent_died_counts() -> None:
    lost = {"exit_status": -9, "lost": "the parent died"}
    message = failed(1, FailureKind.OUT_OF_MEMORY, 0, **lost)
    end = decide(facts(rank(0, **lost, trouble=1), message))
    assert (end.outcome, end.failed_rank) == (Outcome.OUT_OF_MEMORY, 1)


def test_a_result_outlives_the_parent_of_its_ranks() -> None:
    lost = {"exit_status": -9, "lost": "the parent died", "trouble": 0}
    end = decide(facts(rank(0), rank(1, **lost), measurement=MEASUREMENT))
    assert end.outcome is Outcome.COMPLETED


WAITS = Frame(file="/v/site-packages/torch/distributed/c10d.py", line=1, function="all_reduce")
SLEEPS = Frame(file="/home/me/data.py", line=7, function="load")
STANDINGS = (Standing(rank=0, frames=(WAITS,)), Standing(rank=1, frames=(SLEEPS,)))


def test_silence_is_a_hang_of_the_rank_that_is_behind() -> None:
    changes = {"halt": Halt.NO_PROGRESS, "silent_s": 22.4, "expected_s": 0.01, "windows": 0}
    end = decide(facts(ended(0), ended(1), standings=STANDINGS, steps=1, **changes))
    assert (end.outcome, end.failed_rank, end.log_tail) == (Outcome.HUNG, 1, "log of 1")
    assert end.reason == (
        "no sign of life for 22 s after 1 step, where one was expected within 0.1 s: "
        "rank 1 is at /home/me/data.py:7 in load; rank 0 is at "
        "/v/site-packages/torch/distributed/c10d.py:1 in all_reduce"
    )


def test_silence_is_the_machines_fault_if_somebody_has_stopped_a_rank() -> None:
    standings = (STANDINGS[0], Standing(rank=1, state="T"))
    end = decide(facts(ended(0), ended(1), halt=Halt.NO_PROGRESS, standings=standings))
    assert (end.outcome, end.failed_rank) == (Outcome.ENVIRONMENT, 1)
    assert "after 1 window, " in end.reason


def test_silence_of_which_nobody_is_the_cause_names_nobody() -> None:
    end = decide(facts(ended(0), ended(1), halt=Halt.NO_PROGRESS, standings=STANDINGS[:1]))
    assert (end.outcome, end.failed_rank) == (Outcome.HUNG, None)


def test_the_silent_rank_is_told_with_where_it_was() -> None:
    ranks = (failed(0, FailureKind.COLLECTIVE, 0), ended(1))
    end = decide(facts(*ranks, standings=STANDINGS))
    assert end.reason.startswith("rank 1 (is at /home/me/data.py:7 in load) took no part in")


def test_a_trial_whose_time_is_over_before_its_first_step_says_who_was_where() -> None:
    end = decide(
        facts(ended(0), ended(1), halt=Halt.TIME_LIMIT, standings=STANDINGS, steps=0, windows=0)
    )
    assert (end.outcome, end.failed_rank) == (Outcome.TIMED_OUT, 1)
    assert end.reason.startswith("not done after 12 s, with 0 of 2 windows measured and no step")
    assert "rank 1 is at /home/me/data.py:7 in load; rank 0 " in end.reason


def test_a_slow_trial_that_trains_is_nobodys_fault() -> None:
    end = decide(facts(ended(0), ended(1), halt=Halt.TIME_LIMIT, standings=STANDINGS, steps=3))
    assert (end.outcome, end.failed_rank) == (Outcome.TIMED_OUT, None)
    assert "rank 1" not in end.reason


def test_a_rank_that_never_started_is_told_with_where_it_was() -> None:
    ranks = (ended(0), ended(1, started=False))
    end = decide(facts(*ranks, halt=Halt.NEVER_STARTED, standings=STANDINGS))
    assert end.reason.endswith("the others: 1 (is at /home/me/data.py:7 in load)")


@pytest.mark.parametrize(
    ("has_environment", "outcome"), [(False, Outcome.ENVIRONMENT), (True, Outcome.HUNG)]
)
def test_ranks_that_wait_in_vain_before_they_have_met(
    has_environment: bool, outcome: Outcome
) -> None:
    ranks = [failed(number, FailureKind.COLLECTIVE, number, started=False) for number in (0, 1)]
    assert decide(facts(*ranks, has_environment=has_environment)).outcome is outcome

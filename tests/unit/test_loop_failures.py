"""The loop does with each outcome what the table in model/outcome.py says."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import pytest

from autotune.loop.failures import hopeless, stuck
from autotune.loop.ledger import Ledger
from autotune.model import (
    TREATMENTS,
    Conclusion,
    Lesson,
    Outcome,
    Phase,
    ShardingStrategy,
    StudyStatus,
    TrainingSettings,
    Trial,
)
from autotune.space.facts import Facts
from autotune.space.space import Space
from autotune.storage import MemoryStore
from tests.fakes import MACHINE
from tests.unit.test_loop import KNOBS, TARGET, equal, failing, fsdp_wins, run

FAILURES = [outcome for outcome in Outcome if outcome.treatment.ends_study_after]
RETRIED = [outcome for outcome in FAILURES if outcome.treatment.retries]
GIVEN_UP = [outcome for outcome in RETRIED if outcome.treatment.gives_up]
INFEASIBLE = [outcome for outcome in FAILURES if outcome.is_infeasible]


def at(
    launches: Mapping[int, Outcome], otherwise: Callable[[TrainingSettings], float] = equal
) -> Callable[[TrainingSettings], float | Outcome]:
    """Trials whose numbers are in `launches` end so."""
    number = -1

    def speed(settings: TrainingSettings) -> float | Outcome:
        nonlocal number
        number += 1
        return launches.get(number, otherwise(settings))

    return speed


@cache
def template() -> list[Trial]:
    return run(equal, max_trials=1)[1]


def ended(*outcomes: Outcome) -> list[Trial]:
    """Trials of a study that ended so; what else they say doesn't matter."""
    trials = template()
    return [
        Trial(**{**vars(trials[0]), "number": number, "outcome": outcome, "reason": "why"})
        for number, outcome in enumerate(outcomes)
    ]


@pytest.mark.parametrize("outcome", RETRIED)
def test_what_the_machine_did_is_tried_again_and_never_scored(outcome: Outcome) -> None:
    _, trials, _ = run(at({4: outcome}), max_trials=4)
    assert trials[4].outcome is outcome
    assert trials[5].candidate == trials[4].candidate
    assert trials[5].phase is trials[4].phase
    assert len([t for t in trials if t.phase is Phase.SEARCH and t.outcome.is_final]) == 4


@pytest.mark.parametrize("outcome", INFEASIBLE)
def test_a_candidate_that_fails_by_itself_is_not_launched_again(outcome: Outcome) -> None:
    _, trials, _ = run(at({4: outcome}), search="random", max_trials=4)
    assert Counter(t.candidate for t in trials)[trials[4].candidate] == 1


@pytest.mark.parametrize("outcome", GIVEN_UP)
def test_a_candidate_that_is_ended_at_each_launch_is_given_up(outcome: Outcome) -> None:
    """A guard of the memory ends no process of the kernel's count, and does so every time."""
    launches = 1 + outcome.treatment.retries
    faults = {3 + n: outcome for n in range(launches)}
    end, trials, _ = run(at(faults), search="random", max_trials=4)
    unlucky = trials[3].candidate
    assert [t.number for t in trials if t.candidate == unlucky] == [3, 4, 5]
    assert not end.stuck
    assert end.decision.conclusion is Conclusion.KEEP_DEFAULTS


@pytest.mark.parametrize("kept", [5, 6])
def test_a_resumed_study_counts_the_launches_before(kept: int) -> None:
    whole = MemoryStore()
    _, expected, _ = run(
        at({3 + n: Outcome.PREEMPTED for n in range(3)}), whole, noise=0.0, max_trials=3
    )
    study = whole.study("r")
    assert study is not None
    store = MemoryStore()
    store.add_study(study)
    for trial in expected[:kept]:
        store.add_trial(trial)
    _, trials, _ = run(at({0: Outcome.PREEMPTED} if kept == 5 else {}), store, noise=0.0)
    assert [t.candidate for t in trials] == [t.candidate for t in expected]


@pytest.mark.parametrize("outcome", RETRIED)
def test_a_machine_that_always_fails_ends_the_study_and_is_named(outcome: Outcome) -> None:
    store = MemoryStore()
    end, trials, _ = run(failing(*ShardingStrategy, outcome=outcome), store, only=("strategy",))
    assert end.stuck
    assert len(trials) == outcome.treatment.ends_study_after
    assert end.decision.conclusion is Conclusion.NO_CANDIDATE
    reason = end.decision.reason
    assert f"{len(trials)} trials ended as {outcome}" in reason
    assert "since as the test says" in reason
    assert outcome.treatment.advice in reason
    study = store.study("r")
    assert study is not None
    assert study.status is StudyStatus.INTERRUPTED
    # Once the machine is mended, the same study goes on.
    end, _, _ = run(fsdp_wins, store, only=("strategy",))
    assert end.decision.conclusion is Conclusion.IMPROVED


# Memory that ran out isn't launched ten times: what needs as much is known not to fit.
@pytest.mark.parametrize(
    "outcome", sorted(set(INFEASIBLE) - {Outcome.OUT_OF_MEMORY, Outcome.DIVERGED})
)
def test_when_nothing_works_the_study_ends_and_names_the_failure(outcome: Outcome) -> None:
    store = MemoryStore()
    end, trials, _ = run(failing(*ShardingStrategy, outcome=outcome), store, max_trials=100)
    assert len(trials) == outcome.treatment.ends_study_after
    assert end.decision.conclusion is Conclusion.NO_CANDIDATE
    assert end.best is None
    assert store.best(TARGET) is None
    assert f"{len(trials)} trials ended as {outcome}" in end.decision.reason
    assert outcome.treatment.advice in end.decision.reason


def test_when_nothing_fits_into_memory_the_study_says_what_to_do() -> None:
    end, trials, _ = run(failing(*ShardingStrategy), max_trials=100)
    assert end.decision.conclusion is Conclusion.NO_CANDIDATE
    assert len(trials) < 10
    assert "take a smaller model or --global-batch" in end.decision.reason


def test_a_streak_is_broken_by_a_trial_that_got_further() -> None:
    environment, crashed, done = Outcome.ENVIRONMENT, Outcome.CRASHED, Outcome.COMPLETED
    assert stuck(ended(*[environment] * 3))
    assert not stuck(ended(environment, environment, crashed, environment))
    assert not stuck(ended(environment, environment, done, environment))
    assert hopeless(ended(*[crashed] * 5, environment, *[crashed] * 5))
    assert not hopeless(ended(done, *[crashed] * 10))
    assert not hopeless(ended(*[crashed] * 9, Outcome.HUNG))


def test_only_the_same_failure_counts_and_cancelled_trials_do_not() -> None:
    environment, preempted = Outcome.ENVIRONMENT, Outcome.PREEMPTED
    assert not stuck(ended(preempted, preempted, environment))
    streak = stuck(ended(environment, preempted, environment, Outcome.CANCELLED, environment))
    assert streak is not None
    assert streak.times == 3
    assert not stuck(ended(*[environment] * 3, Outcome.CANCELLED))


def test_only_what_ends_more_than_one_candidate_gives_one_up() -> None:
    assert GIVEN_UP == [Outcome.PREEMPTED]
    for outcome in set(RETRIED) - set(GIVEN_UP):
        assert outcome.treatment.ends_study_after == outcome.treatment.retries + 1
    assert all(TREATMENTS[outcome].lesson is Lesson.NOTHING for outcome in RETRIED)


def test_every_launch_of_a_given_up_candidate_has_its_own_retries() -> None:
    ledger = Ledger(Space(KNOBS, Facts.of(MACHINE, TARGET)))
    for trial in ended(*[Outcome.PREEMPTED] * 7):
        ledger.add(trial)
    assert len(ledger.baselines) == 2
    assert list(ledger.open.values()) == [Phase.BASELINE]


def test_what_ends_between_retries_of_another_candidate_changes_nothing_of_them() -> None:
    space = Space(KNOBS, Facts.of(MACHINE, TARGET))
    ledger = Ledger(space)
    lost, other = list(space.candidates())[:2]
    preempted = replace(ended(Outcome.PREEMPTED)[0], candidate=lost, phase=Phase.SEARCH)
    worked = replace(ended(Outcome.CRASHED)[0], candidate=other, phase=Phase.SEARCH)
    for _ in range(2):
        ledger.add(preempted)
        ledger.add(worked)
        assert list(ledger.open) == [lost]
    ledger.add(preempted)
    assert not ledger.open
    assert ledger.values[lost] is None

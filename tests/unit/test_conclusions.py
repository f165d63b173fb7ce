"""What a study says in the end, and that it is so."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from autotune.budget import Budget
from autotune.executors.landscapes import LandscapeSource
from autotune.loop.confirmed import best_of
from autotune.loop.decision import Decision
from autotune.loop.plan import CONFIRM_SHARE, ROUNDS_SHARE
from autotune.model import Candidate, Conclusion, Outcome, Phase, Ratio, TrainingSettings, Trial
from autotune.scoring.design import MAX_ROUNDS, MIN_ROUNDS
from autotune.storage import MemoryStore
from tests.unit import test_simulated_study as simulated
from tests.unit.test_loop import fsdp_wins, run

ONE, OTHER = Candidate({"knob": 1}), Candidate({"knob": 2})


def kept(compared: Candidate, estimate: float, rounds: int) -> Decision:
    return Decision(
        conclusion=Conclusion.KEEP_DEFAULTS,
        candidate=Candidate({}),
        reason="",
        ratio=Ratio(estimate=estimate, low=0.9, high=1.2, confidence=0.95),
        compared=compared,
        rounds=rounds,
    )


def test_of_several_confirmations_of_one_candidate_the_longest_counts() -> None:
    lucky, long = kept(ONE, 1.06, 5), kept(ONE, 1.01, 40)
    assert best_of([lucky, long]) is long
    assert best_of([long, lucky]) is long
    slower = kept(OTHER, 0.99, 40)
    assert best_of([slower, long]) is long
    unfinished = kept(OTHER, 1.2, MIN_ROUNDS - 1)
    assert best_of([unfinished, long]) is long
    assert best_of([unfinished]) is unfinished


def test_a_gain_that_was_shown_stands_though_a_confirmation_before_showed_none() -> None:
    """Each may spend its own part of the error."""
    shown = replace(kept(ONE, 1.04, 20), conclusion=Conclusion.IMPROVED, candidate=ONE)
    for rounds in (20, 40):
        before = kept(ONE, 1.02, rounds)
        assert best_of([shown, before]) is shown
        assert best_of([before, shown]) is shown
    lucky = replace(shown, rounds=MIN_ROUNDS - 1)
    assert best_of([lucky, kept(ONE, 1.0, 5)]) is not lucky


def test_the_baseline_that_is_shown_is_of_the_rounds_that_are_quoted() -> None:
    repeated = 0
    for seed in (1, 12, 13):
        store = MemoryStore()
        source = LandscapeSource.of("two-hosts")
        given = {"budget": Budget(seconds=3600.0), "max_trials": None, "seed": seed}
        study = simulated.started(source, store, **given)
        end = simulated.run(study, store)
        launched = Counter(
            t.candidate for t in store.trials(study.run_id) if t.phase is Phase.CONFIRM
        )
        assert end.decision.compared
        assert end.evidence
        assert end.evidence.baseline
        repeated += launched[end.decision.compared] > end.decision.rounds
        assert end.evidence.baseline.launches == end.decision.rounds
        assert f"over {end.decision.rounds} interleaved launches" in end.decision.reason
    assert repeated


def failing_from(launch: int, speed: float, *, baseline_too: bool = False) -> Callable[..., object]:
    """FSDP trains at `speed` until its n-th launch; DDP, perhaps, no longer from then on."""
    launched: Counter[bool] = Counter()
    broken = False

    def of(settings: TrainingSettings) -> float | Outcome:
        nonlocal broken
        launched[settings.strategy.is_fsdp] += 1
        broken |= launched[True] >= launch
        if settings.strategy.is_fsdp:
            return Outcome.CRASHED if broken else speed
        return Outcome.CRASHED if broken and baseline_too else 100.0

    return of


def first_confirming(trials: list[Trial]) -> int:
    """How often FSDP was launched before it was confirmed."""
    return sum(t.settings.strategy.is_fsdp for t in trials if t.phase is not Phase.CONFIRM)


@pytest.mark.parametrize("baseline_too", [False, True])
def test_a_finalist_that_fails_while_it_is_confirmed_is_no_answer(baseline_too: bool) -> None:
    _, whole, _ = run(fsdp_wins, only=("strategy",), max_trials=1)
    fails = failing_from(first_confirming(whole) + 2, 150.0, baseline_too=baseline_too)
    end, trials, _ = run(fails, only=("strategy",), max_trials=1)  # type: ignore[arg-type]
    assert Outcome.CRASHED in {t.outcome for t in trials if t.phase is Phase.CONFIRM}
    assert end.decision.conclusion is Conclusion.KEEP_DEFAULTS
    assert end.decision.reason == "no finalist worked each time it was launched again"


def test_an_answer_says_that_its_baseline_failed_in_its_confirmation() -> None:
    calls: Counter[bool] = Counter()

    def speed(settings: TrainingSettings) -> float | Outcome:
        calls[settings.strategy.is_fsdp] += 1
        if settings.strategy.is_fsdp:
            return 150.0
        return 100.0 if calls[False] <= 4 else Outcome.CRASHED

    end, _, _ = run(speed, only=("strategy",), max_trials=1)
    assert end.decision.conclusion is Conclusion.UNCONFIRMED
    assert "launches to confirm it the baseline completed 1" in end.decision.reason


def test_a_candidate_that_failed_when_launched_again_is_said_to_have() -> None:
    fails = failing_from(2, 110.0)
    end, _, _ = run(fails, only=("strategy",), max_trials=1)  # type: ignore[arg-type]
    assert end.decision.conclusion is Conclusion.KEEP_DEFAULTS
    assert "of a candidate that failed when it was launched again" in end.decision.reason


@pytest.mark.parametrize("gain", [1.0, 1.5])
def test_with_fewer_than_five_rounds_nothing_is_confirmed_not_even_the_defaults(
    gain: float,
) -> None:
    # The machine becomes slow within the rounds.
    end, trials, _ = run(
        lambda settings: 100.0 * gain if settings.strategy.is_fsdp else 100.0,
        noise=0.05,
        noise_seed=2,
        only=("strategy",),
        max_trials=1,
        budget_s=30.0,
        launch_s=lambda n: 1.0 if n < 9 else 5.0,
    )
    rounds = [trial for trial in trials if trial.phase is Phase.CONFIRM]
    assert 0 < len(rounds) < 2 * MIN_ROUNDS
    assert end.decision.conclusion is Conclusion.UNCONFIRMED
    assert f"of the {MIN_ROUNDS} rounds that confirm" in end.decision.reason


@pytest.mark.parametrize("budget_s", [None, 600.0])
def test_no_time_is_blamed_where_nothing_works(budget_s: float | None) -> None:
    end, _, _ = run(lambda _: Outcome.CRASHED, max_trials=50, budget_s=budget_s)
    assert end.decision.conclusion is Conclusion.NO_CANDIDATE
    assert end.search_ended == ""


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_confirmation_that_time_has_ended_says_so(is_cut: bool) -> None:
    end, _, _ = run(
        lambda settings: 104.0 if settings.strategy.is_fsdp else 100.0,
        noise=0.05,
        noise_seed=1 if is_cut else 6,  # with 6, the first rounds leave no hope
        only=("strategy",),
        max_trials=2,
        budget_s=40.0,
    )
    assert end.decision.conclusion is Conclusion.KEEP_DEFAULTS
    said = re.search(
        r"over (\d+) interleaved.*; there was no time for (\d+) more", end.decision.reason
    )
    assert (said is not None) == is_cut
    if said:
        assert int(said[1]) + int(said[2]) == MAX_ROUNDS


@pytest.mark.parametrize("seed", range(4))
def test_a_contest_leaves_confirmation_time_for_what_the_noise_asks(seed: int) -> None:
    _, trials, _ = run(
        lambda settings: 104.0 if settings.strategy.is_fsdp else 100.0,
        noise=0.05,
        noise_seed=seed,
        max_trials=None,
        budget_s=100.0,
    )
    phases = [trial.phase for trial in trials]
    contests = phases.count(Phase.CONTEND)
    before_s = sum(trial.seconds for trial in trials[: phases.index(Phase.CONFIRM)])
    assert contests > 3
    assert before_s <= 100.0 * (1 - CONFIRM_SHARE * ROUNDS_SHARE) + 1.0

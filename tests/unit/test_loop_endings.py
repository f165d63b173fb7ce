"""How studies end that can't, or needn't, go their whole way."""

import math
import re
from collections import Counter
from itertools import pairwise

import pytest

from autotune.loop.ledger import Ledger
from autotune.loop.plan import NOISY_LAUNCHES
from autotune.model import Conclusion, Outcome, Phase, TrainingSettings
from autotune.scoring.design import MAX_ROUNDS, MIN_ROUNDS
from autotune.space.facts import Facts
from autotune.space.space import Space
from tests.fakes import MACHINE
from tests.unit.test_loop import KNOBS, TARGET, equal, failing, fsdp_wins, run

SPACE = Space(KNOBS, Facts.of(MACHINE, TARGET))


def test_a_baseline_that_does_not_train_ends_the_study_with_advice() -> None:
    end, trials, _ = run(failing("ddp", outcome=Outcome.DIVERGED))
    assert len(trials) == 1
    assert end.decision.conclusion is Conclusion.NO_CANDIDATE
    assert end.best is None
    assert "as the test says" in end.decision.reason
    assert "learning rate" in end.decision.reason


def test_a_baseline_that_uses_up_the_budget_without_a_result_is_not_launched_again() -> None:
    end, trials, _ = run(
        failing("ddp", outcome=Outcome.TIMED_OUT), budget_s=30.0, launch_s=lambda _: 60.0
    )
    assert len(trials) == 1
    assert end.decision.conclusion is Conclusion.NO_CANDIDATE


def test_a_machine_on_which_nothing_can_be_told_apart_is_said_to_be_one() -> None:
    end, trials, _ = run(fsdp_wins, noise=0.6, noise_seed=1)
    assert [trial.phase for trial in trials] == [Phase.BASELINE] * NOISY_LAUNCHES
    assert end.decision.conclusion is Conclusion.KEEP_DEFAULTS
    assert "from launch to launch" in end.decision.reason
    assert "could be shown" in end.decision.reason


def test_noise_that_shows_late_is_named_beside_what_it_hides() -> None:
    end, trials, _ = run(equal, noise=0.4, noise_seed=6, max_trials=4)
    assert len(trials) > NOISY_LAUNCHES
    assert end.decision.conclusion is Conclusion.KEEP_DEFAULTS
    assert re.search(r"95 % interval .*; launches differ so much \(4\d % ", end.decision.reason)
    quiet, _, _ = run(equal, noise=0.02, noise_seed=6, max_trials=4)
    assert "differ so much" not in quiet.decision.reason


def test_the_search_says_why_it_ended() -> None:
    stopped, _, _ = run(fsdp_wins, max_trials=3)
    assert stopped.search_ended == "as many candidates as asked for were tried (3)"
    enough, trials, _ = run(fsdp_wins, max_trials=None)
    assert "is expected to show a gain" in enough.search_ended
    assert len(trials) < 150
    late, _, _ = run(fsdp_wins, max_trials=None, budget_s=30.0)
    assert late.search_ended == "the time left is for confirmation"
    bored, _, _ = run(equal, max_trials=None, search="random", noise=0.0)
    assert "brought nothing better" in bored.search_ended
    for search in ("grid", "staged"):
        tried, _, _ = run(equal, max_trials=None, search=search, only=("bucket_cap_mb",))
        assert tried.search_ended == "every candidate was tried", search


@pytest.mark.parametrize("search", ["grid", "staged"])
def test_time_is_not_blamed_where_there_is_nothing_to_try(search: str) -> None:
    end, trials, _ = run(equal, max_trials=None, budget_s=600.0, search=search, knobs=[])
    assert {trial.phase for trial in trials} == {Phase.BASELINE}
    assert end.decision.conclusion is Conclusion.KEEP_DEFAULTS
    assert end.decision.reason == "nothing else was launched: every candidate was tried"


@pytest.mark.parametrize("stall", [1.0, 1.5])
def test_a_fast_reading_that_was_too_unsteady_is_not_passed_over_in_silence(stall: float) -> None:
    """`none came close` beside `best reading +10 %` would be a contradiction."""

    def speed(settings: TrainingSettings) -> float:
        return (110.0 if stall > 1 else 70.0) if settings.strategy.is_fsdp else 100.0

    end, _, _ = run(
        speed,
        stall=lambda settings: stall if settings.strategy.is_fsdp else 1.0,
        only=("strategy",),
        max_trials=2,
    )
    assert end.decision.conclusion is Conclusion.KEEP_DEFAULTS
    said = re.fullmatch(
        r"none of the other 2 candidates came close: the best score was at (-\d\d\.\d) %(.*)",
        end.decision.reason,
    )
    assert said
    assert ("; the fastest reading was at +" in said[2]) == (stall > 1)
    assert ("stability of 0.77 where the defaults have 1.00" in said[2]) == (stall > 1)


@pytest.mark.parametrize("noise", [0.005, 0.04])
def test_confirmation_has_as_many_rounds_as_the_noise_asks_for(noise: float) -> None:
    def a_little_better(settings: TrainingSettings) -> float:
        return 106.0 if settings.strategy.is_fsdp else 100.0

    _, trials, _ = run(a_little_better, noise=noise, only=("strategy",))
    launched = [trial for trial in trials if trial.phase is Phase.CONFIRM]
    arms = len({trial.candidate for trial in launched})
    rounds = len(launched) / arms
    if noise < 0.01:
        assert rounds < 2 * MIN_ROUNDS
    else:
        assert MIN_ROUNDS < rounds <= MAX_ROUNDS


def test_fewer_than_five_rounds_leave_an_answer_unconfirmed() -> None:
    # The machine becomes slow within the rounds.
    end, trials, _ = run(
        fsdp_wins,
        only=("strategy",),
        max_trials=1,
        budget_s=30.0,
        launch_s=lambda n: 1.0 if n < 9 else 5.0,
    )
    confirmed = [trial for trial in trials if trial.phase is Phase.CONFIRM]
    assert len(confirmed) < 2 * MIN_ROUNDS
    assert end.decision.conclusion is Conclusion.UNCONFIRMED
    assert end.decision.ratio is not None
    assert f"of the {MIN_ROUNDS} rounds that confirm" in end.decision.reason


def test_a_trial_that_has_lost_is_stopped_and_still_tells_the_search() -> None:
    def far_behind(settings: TrainingSettings) -> float:
        return 40.0 if settings.strategy.is_fsdp else 100.0

    _, trials, _ = run(far_behind, only=("strategy",), max_trials=None)
    pruned = [trial for trial in trials if trial.outcome is Outcome.PRUNED]
    assert {trial.phase for trial in pruned} == {Phase.SEARCH}
    assert all(trial.measurement and len(trial.measurement.windows) == 1 for trial in pruned)
    ledger = Ledger(SPACE)
    for trial in trials:
        ledger.add(trial)
    assert all(ledger.values[trial.candidate] == pytest.approx(40, rel=0.1) for trial in pruned)
    assert ledger.leading == SPACE.baseline()


def test_readings_are_corrected_for_a_drift_that_repeated_launches_show() -> None:
    """The machine loses a third of its speed, and a candidate read late isn't taken for slower."""
    launches = 0

    def slowing(settings: TrainingSettings) -> float:
        nonlocal launches
        launches += 1
        return (105.0 if settings.strategy.is_fsdp else 100.0) * math.exp(-0.01 * launches)

    end, trials, _ = run(slowing, noise=0.002, max_trials=30, search="random")
    assert end.drift.percent_per_hour < -10
    ledger = Ledger(SPACE)
    for trial in trials:
        ledger.add(trial)
    read = [c for c, arm in ledger.arms.items() if arm.rates]
    base = ledger.log_rate(SPACE.baseline())
    for candidate in read:
        expected = math.log(1.05) if "fsdp" in str(candidate["strategy"]) else 0.0
        assert ledger.log_rate(candidate) - base == pytest.approx(expected, abs=0.03)


def test_only_scheduled_launches_say_that_a_machine_drifts() -> None:
    """What is launched again because it read well reads lower then, on a steady machine too."""
    launches: Counter[TrainingSettings] = Counter()

    def lucky_at_first(settings: TrainingSettings) -> float:
        launches[settings] += 1
        is_baseline = not settings.strategy.is_fsdp and settings.accumulation_steps == 1
        return 100.0 if is_baseline or launches[settings] > 1 else 110.0

    end, trials, _ = run(lucky_at_first, noise=0.002, max_trials=30, search="random")
    repeated = [trial for trial in trials if trial.phase is Phase.CONTEND]
    assert len(repeated) > 5
    assert end.drift.per_second == 0.0


@pytest.mark.parametrize(("accumulating", "twice"), [(100.0, True), (80.0, False)])
def test_values_of_large_knobs_are_launched_twice_unless_they_have_lost(
    accumulating: float, twice: bool
) -> None:
    def speed(settings: TrainingSettings) -> float:
        return accumulating if settings.accumulation_steps > 1 else 100.0

    _, trials, _ = run(speed, noise=0.02, max_trials=4, only=("accumulation_steps",))
    doubled = [
        one.candidate
        for one, after in pairwise(trials)
        if (one.phase, after.phase) == (Phase.SEARCH, Phase.CONTEND)
        and one.candidate == after.candidate
    ]
    assert len(doubled) == (4 if twice else 0)


def test_confirming_launches_end_once_the_noise_says_that_they_are_known() -> None:
    _, trials, _ = run(fsdp_wins, only=("strategy",))
    windows = [len(t.scored.windows) for t in trials if t.phase is Phase.CONFIRM and t.scored]
    assert windows
    assert set(windows) == {3}

"""More than one confirmation: who comes next, what it costs in error, and what it teaches."""

from collections import Counter
from threading import Event

import pytest

from autotune.loop.ledger import Ledger
from autotune.loop.observer import Observer
from autotune.loop.plan import CONFIRMATIONS
from autotune.model import Candidate, Conclusion, Phase, TrainingSettings, Trial
from autotune.scoring.compare import ratios
from autotune.scoring.design import MIN_ROUNDS
from autotune.scoring.score import score
from autotune.space.facts import Facts
from autotune.space.space import Space
from autotune.storage import MemoryStore
from tests.fakes import MACHINE, Speed
from tests.unit.test_loop import KNOBS, TARGET, run

SPACE = Space(KNOBS, Facts.of(MACHINE, TARGET))


def lucky_at_first() -> Speed:
    """One strategy reads 14 % faster until it is confirmed, another one truly is 12 % faster."""
    launches: Counter[str] = Counter()
    confirming = False

    def speed(settings: TrainingSettings) -> float:
        nonlocal confirming
        name = settings.strategy.value
        launches[name] += 1
        # The baseline is launched three times, and once more only if rounds have begun.
        confirming |= name == "ddp" and launches[name] > 3
        if name == "fsdp_full":
            return 100.0 if confirming else 114.0
        return 112.0 if name == "fsdp_grad_op" else 100.0

    return speed


def confirmations(trials: list[Trial]) -> list[set[Candidate]]:
    """The arms of each confirmation, in their order."""
    found: list[set[Candidate]] = []
    before = Phase.SEARCH
    for trial in trials:
        if trial.phase is Phase.CONFIRM:
            if before is not Phase.CONFIRM:
                found.append(set())
            found[-1].add(trial.candidate)
        before = trial.phase
    return found


def test_the_next_best_is_confirmed_when_no_gain_was_shown() -> None:
    end, trials, _ = run(lucky_at_first(), only=("strategy",), max_trials=4)
    arms = confirmations(trials)
    assert len(arms) == 2
    first, second = ((one - {SPACE.baseline()}).pop() for one in arms)
    assert first["strategy"] == "fsdp_full"
    assert second["strategy"] == "fsdp_grad_op"
    assert end.decision.conclusion is Conclusion.IMPROVED
    assert end.decision.candidate == second


def test_each_confirmation_spends_its_share_of_the_error() -> None:
    end, trials, _ = run(lucky_at_first(), only=("strategy",), max_trials=4)
    assert sum(CONFIRMATIONS) == 1
    start = max(t.number for t in trials if t.phase is not Phase.CONFIRM)
    rates: dict[Candidate, list[float]] = {}
    for trial in trials[start + 1 :]:
        assert trial.scored
        rates.setdefault(trial.candidate, []).append(score(trial.scored).samples_per_second)
    baseline = rates.pop(SPACE.baseline())
    expected = ratios(baseline, rates, share=CONFIRMATIONS[1])[end.decision.candidate]
    assert end.decision.ratio == expected
    assert end.evidence is not None
    assert end.evidence.baseline is not None
    assert end.evidence.baseline.launches == len(baseline), "those of its own rounds only"


def test_what_rounds_measured_counts_once_they_are_over() -> None:
    _, trials, _ = run(lucky_at_first(), only=("strategy",), max_trials=4)
    ledger = Ledger(SPACE)
    counts = []
    for trial in trials:
        ledger.add(trial)
        counts.append(len(ledger.arms[SPACE.baseline()].rates))
    start = next(t.number for t in trials if t.phase is Phase.CONFIRM)
    after = next(t.number for t in trials[start:] if t.phase is not Phase.CONFIRM)
    assert set(counts[start:after]) == {3}, "confirmation must not change whom it confirms"
    assert counts[after] >= 3 + MIN_ROUNDS
    assert len(ledger.refuted) == 1


def test_all_confirmations_in_vain_keep_the_defaults() -> None:
    def lucky_in_the_search(settings: TrainingSettings) -> float:
        launches[settings.strategy.value] += 1
        confirming = launches["ddp"] > 3
        return 100.0 if settings.strategy.value == "ddp" or confirming else 120.0

    launches: Counter[str] = Counter()
    end, trials, _ = run(lucky_in_the_search, only=("strategy",), max_trials=4)
    assert 1 <= len(confirmations(trials)) <= len(CONFIRMATIONS)
    assert end.decision.conclusion is Conclusion.KEEP_DEFAULTS
    assert end.decision.ratio is not None


class StopAt(Observer):
    """Interrupts a study after a trial."""

    def __init__(self, number: int, cancel: Event) -> None:
        self._number = number
        self._cancel = cancel

    def trial_ended(self, trial: Trial) -> None:
        if trial.number == self._number:
            self._cancel.set()


@pytest.mark.parametrize("back", [0, 1, 3])
def test_a_study_resumes_between_confirmations_as_if_nothing_had_happened(back: int) -> None:
    speed = lucky_at_first()
    _, whole, _ = run(speed, only=("strategy",), max_trials=4, noise=0.0)
    rounds = [t.number for t in whole if t.phase is Phase.CONFIRM]
    boundary = next(n for n in rounds if n + 1 not in rounds) + 1
    store, cancel, again = MemoryStore(), Event(), lucky_at_first()
    stop = StopAt(boundary - back, cancel)
    run(again, store, observer=stop, cancel=cancel, only=("strategy",), max_trials=4, noise=0.0)
    _, resumed, _ = run(again, store, noise=0.0)
    assert [(t.phase, t.candidate) for t in resumed] == [(t.phase, t.candidate) for t in whole]

"""What the stored trials of a study say: pure questions over a list of trials."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from statistics import fmean, stdev

from autotune.model import Reading, Trial
from autotune.scoring.score import Score, score


def reading(trials: Iterable[Trial]) -> Reading | None:
    """Throughput over the completed ones of `trials`, which are launches of one candidate."""
    return reading_of(
        [score(trial.measurement) for trial in trials if trial.scored and trial.measurement]
    )


def reading_of(scores: Sequence[Score]) -> Reading | None:
    """Throughput over launches of one candidate; None if there are none."""
    if not scores:
        return None
    rates = [one.samples_per_second for one in scores]
    mean = fmean(rates)
    return Reading(
        samples_per_second=mean,
        spread_percent=100 * stdev(rates) / mean if len(rates) > 1 else None,
        launches=len(rates),
        stability=fmean(one.stability for one in scores),
    )


def mean_rate(trials: Iterable[Trial]) -> float:
    """Mean samples/s of the completed ones of `trials`; 0 if there are none."""
    found = reading(trials)
    return found.samples_per_second if found else 0.0


def covered_s(trials: Iterable[Trial]) -> float:
    """Seconds in which at least one of `trials` was under way."""
    covered_s, until = 0.0, None
    for trial in sorted(trials, key=lambda one: one.started_at):
        end = trial.started_at + timedelta(seconds=trial.seconds)
        start = trial.started_at if until is None else max(until, trial.started_at)
        covered_s += max(0.0, (end - start).total_seconds())
        until = end if until is None else max(until, end)
    return covered_s

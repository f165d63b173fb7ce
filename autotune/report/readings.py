"""The readings of a study's trials, brought to one level: what effects are estimated from."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.model import AnyMeasurement, Candidate, Outcome, Phase, Trial
from autotune.scoring.drift import Drift, Timed, drift
from autotune.scoring.noise import PRIOR_LAUNCH, PRIOR_WINDOW, Noise, Pool
from autotune.scoring.score import score


@dataclass(frozen=True, kw_only=True)
class Point:
    """One trial's log(samples/s), drift taken out."""

    trial: int
    candidate: Candidate
    log_rate: float
    variance: float
    """Of the reading: from launch to launch, and more if the trial was stopped early."""


@dataclass(frozen=True, kw_only=True)
class Readings:
    """All that a study measured of speed."""

    points: tuple[Point, ...]
    noise: Noise
    drift: Drift


def baseline_of(trials: Iterable[Trial]) -> Candidate | None:
    """What the study measured as the baseline; None if it got to none."""
    return next((trial.candidate for trial in trials if trial.phase is Phase.BASELINE), None)


def measured(trial: Trial) -> AnyMeasurement | None:
    """What a trial measured, also if it was stopped early; None if that is no speed.

    A database may hold anything.
    """
    found = trial.measurement
    if found is None or trial.outcome not in (Outcome.COMPLETED, Outcome.PRUNED):
        return None
    usable = all(w.steps > 0 and w.samples > 0 and 0 < w.seconds < math.inf for w in found.windows)
    return found if found.windows and usable and found.allocator_retries >= 0 else None


def readings(trials: Sequence[Trial]) -> Readings:
    """The readings of `trials`, which are all of one study in their order."""
    timed = _timed(trials)
    noise_of_windows = Pool(PRIOR_WINDOW)
    for _, found, _ in timed:
        noise_of_windows.add([math.log(w.samples_per_second) for w in found.windows])
    # As the study has it: others are launched again because they read well.
    baseline = baseline_of(trials)
    trend = drift([[at for trial, _, at in timed if trial.candidate == baseline]])
    noise = Noise(
        launch=(pool := _launches(timed, trend)).deviation,
        window=noise_of_windows.deviation,
        freedom=pool.freedom,
    )
    return Readings(
        points=tuple(_point(trial, found, at, noise, trend) for trial, found, at in timed),
        noise=noise,
        drift=trend,
    )


def _timed(trials: Sequence[Trial]) -> list[tuple[Trial, AnyMeasurement, Timed]]:
    timed = []
    elapsed_s = 0.0
    for trial in trials:
        if found := measured(trial):
            rate = math.log(score(found).samples_per_second)
            timed.append((trial, found, Timed(at_s=elapsed_s, log_rate=rate)))
        elapsed_s += trial.seconds
    return timed


def _launches(timed: Iterable[tuple[Trial, AnyMeasurement, Timed]], trend: Drift) -> Pool:
    groups: dict[Candidate, list[float]] = {}
    for trial, _, at in timed:
        if trial.scored:
            groups.setdefault(trial.candidate, []).append(trend.corrected(at.log_rate, at.at_s))
    pool = Pool(PRIOR_LAUNCH)
    for rates in groups.values():
        pool.add(rates)
    return pool


def _point(trial: Trial, found: AnyMeasurement, at: Timed, noise: Noise, trend: Drift) -> Point:
    # The median of fewer windows tells less.
    early = 0.0 if trial.scored else noise.window**2 / len(found.windows)
    return Point(
        trial=trial.number,
        candidate=trial.candidate,
        log_rate=trend.corrected(at.log_rate, at.at_s),
        variance=noise.launch**2 + early,
    )

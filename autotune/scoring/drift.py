"""Whether a machine got slower or faster through a study, by what was launched more than once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from autotune.scoring.distributions import t_quantile

CONFIDENCE = 0.99
"""A drift is corrected for if it is shown this clearly: correcting for noise would add noise."""
_LEAST = 6
"""Readings below which nothing is said: a trend through few early ones is far off later on."""


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One launch: when, in seconds of the study, and its log(samples/s)."""

    at_s: float
    log_rate: float


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A trend of log(samples/s) common to all candidates."""

    per_second: float = 0.0
    """0 unless it is shown."""

    @property
    def percent_per_hour(self) -> float:
        return 100 * math.expm1(3600 * self.per_second)

    def corrected(self, log_rate: float, at_s: float) -> float:
        """What would have been read at the study's start."""
        return log_rate - self.per_second * at_s


def drift(groups: Sequence[Sequence[Timed]]) -> Drift:
    """The trend within groups of launches, each group of one candidate.

    Ordinary least squares with an intercept for each group (analysis of covariance); the slope
    counts if its t test rejects 0. Source: Montgomery, Design and Analysis of Experiments, 15.3.
    """
    groups = [group for group in groups if len(group) > 1]
    count = sum(map(len, groups))
    freedom = count - len(groups) - 1
    pairs = [pair for group in groups for pair in _centred(group)]
    time_squares = sum(at * at for at, _ in pairs)
    if count < _LEAST or freedom < 1 or not time_squares:
        return Drift()
    slope = sum(at * rate for at, rate in pairs) / time_squares
    residual = sum((rate - slope * at) ** 2 for at, rate in pairs)
    error = math.sqrt(residual / freedom / time_squares)
    critical = t_quantile(freedom, (1 + CONFIDENCE) / 2)
    return Drift(per_second=slope) if abs(slope) > critical * error else Drift()


def _centred(group: Sequence[Timed]) -> list[tuple[float, float]]:
    at = fmean(one.at_s for one in group)
    rate = fmean(one.log_rate for one in group)
    return [(one.at_s - at, one.log_rate - rate) for one in group]

"""Whether a running trial is lost, or known well enough, by its windows so far."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from autotune.scoring.noise import Noise

LOST = 2.6
"""Standard errors behind the best, beyond which a trial stops: at each edge one in 200 of those
that are as good as the best is stopped wrongly."""
_PAIR = 2
_MEDIAN = math.pi / 2
"""Variance of a median over that of a mean, for many normal values; that of two is their mean."""
MIN_WINDOWS = 3
"""Fewer say nothing of steadiness."""
NEGLIGIBLE = 0.25
"""Share of the variance that windows may have in a reading for more of them to change little."""


@dataclass(frozen=True, kw_only=True)
class Leader:
    """The best candidate so far."""

    log_rate: float
    launches: int


def is_lost(log_rates: Sequence[float], leader: Leader, noise: Noise) -> bool:
    """Whether a launch with these windows, as log(samples/s), can no longer reach the leader.

    The leader's own reading counts with its error: the best of many is partly luck.
    """
    count = len(log_rates)
    window_variance = noise.window**2 / count * (1.0 if count <= _PAIR else _MEDIAN)
    variance = noise.launch**2 * (1 + 1 / leader.launches) + window_variance
    return median(log_rates) + LOST * math.sqrt(variance) < leader.log_rate


def is_known(windows: int, noise: Noise) -> bool:
    """Whether more windows would hardly change what this launch tells of its candidate."""
    if windows < MIN_WINDOWS:
        return False
    return noise.window**2 / windows <= NEGLIGIBLE * noise.launch**2

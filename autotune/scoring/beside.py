"""Whether trials disturb each other: one candidate's launches alone, and beside others of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from autotune.scoring.compare import CONFIDENCE
from autotune.scoring.distributions import t_quantile
from autotune.scoring.noise import Noise


@dataclass(frozen=True, kw_only=True)
class Disturbance:
    """How fast the same launches are alone and beside others; geometric means in samples/s."""

    alone: float
    beside: float
    is_shown: bool
    """They differ beyond the noise."""

    @property
    def percent(self) -> float:
        """By how much those beside others are faster."""
        return 100 * (self.beside / self.alone - 1)


def disturbance(alone: Sequence[float], beside: Sequence[float], noise: Noise) -> Disturbance:
    """Of log(samples/s), at least one alone and two beside others.

    A two-sided t test on the means' difference by the noise between launches, which `noise` knows
    from those alone and others, and the launches beside others add to: a network that is shared may
    make them differ more. Source: Montgomery, Design and Analysis of Experiments, 2.4.1.
    """
    pooled = noise.pooled(stdev(beside), len(beside) - 1)
    error = pooled.launch * math.sqrt(1 / len(alone) + 1 / len(beside))
    critical = t_quantile(pooled.freedom, (1 + CONFIDENCE) / 2)
    difference = fmean(beside) - fmean(alone)
    return Disturbance(
        alone=math.exp(fmean(alone)),
        beside=math.exp(fmean(beside)),
        is_shown=abs(difference) > critical * error,
    )

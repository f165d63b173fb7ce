"""How many rounds of confirmation show a gain, by the noise and the gain that is hoped for."""

import math

from autotune.scoring.compare import CONFIDENCE
from autotune.scoring.distributions import normal_quantile, t_quantile

MIN_ROUNDS = 5
"""Fewer leave an answer unconfirmed."""
MAX_ROUNDS = 40
POWER = 0.9
"""Chance that a true gain of the size hoped for is shown."""
WORTHWHILE = 0.03
"""Gains below this may go unnoticed."""


def rounds_needed(launch_noise: float, gain: float, share: float = 1.0) -> int:
    """Rounds, each a launch of every arm, from MIN_ROUNDS to MAX_ROUNDS.

    `launch_noise` is the standard deviation of log(samples/s) between launches, `gain` the relative
    gain to be shown, `share` what the interval may spend of the error. The number depends on what
    was known before confirmation only, so that the interval keeps its promise. Source: sample size
    for a two-sample t test, Montgomery, 2.4.2.
    """
    distance = math.log1p(max(gain, WORTHWHILE))
    for rounds in range(MIN_ROUNDS, MAX_ROUNDS):
        if shown_at_least(launch_noise, rounds, share) <= distance:
            return rounds
    return MAX_ROUNDS


def shown_at_least(launch_noise: float, rounds: int, share: float = 1.0) -> float:
    """The true log ratio that `rounds` show with a chance of POWER."""
    tail = share * (1 - CONFIDENCE) / 2
    error = launch_noise * math.sqrt(2 / rounds)
    return (t_quantile(rounds - 1, 1 - tail) + normal_quantile(POWER)) * error

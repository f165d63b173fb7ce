"""When rounds of confirmation end before the last: if the rest would hardly show a gain any more.

Only the last round may show a gain, so these looks can't make a false winner, and don't favour
lucky readings as an early success would. Source: Spiegelhalter, Freedman and Blackburn, Monitoring
Clinical Trials: Conditional or Predictive Power? (1986).
"""

import math
from collections.abc import Iterable

from autotune.scoring.compare import CONFIDENCE, Contrast
from autotune.scoring.design import MIN_ROUNDS
from autotune.scoring.distributions import normal_cdf, normal_quantile

FUTILE = 0.1
"""Chance of showing a gain in the end, below which the rounds that are left aren't launched."""
EARLY_SHARE = 0.5
"""Of the error that an interval may spend, what one spends that ended early: readings that end the
rounds are unlucky ones, so that the same interval would hold less often."""


def looks(rounds: int) -> tuple[int, ...]:
    """After how many of `rounds` the result is looked at: the least, twice that and so on."""
    found = []
    look = MIN_ROUNDS
    while look < rounds:
        found.append(look)
        look *= 2
    return tuple(found)


def share(done: int, rounds: int) -> float:
    """What the interval after `done` of `rounds` may spend of the error."""
    return EARLY_SHARE if done in looks(rounds) else 1.0


def may_show(found: Iterable[Contrast], done: int, rounds: int) -> bool:
    """Whether all `rounds` may still show a gain of one of `found`, measured after `done`."""
    return max(_chance(one, done, rounds) for one in found) >= FUTILE


def _chance(found: Contrast, done: int, rounds: int) -> float:
    """That `rounds` show a gain if the truth is what `done` of them say, give or take its error."""
    if found.error == 0:
        return float(found.ahead > 0)
    of_one = found.error * math.sqrt(done)
    needed = normal_quantile(1 - (1 - CONFIDENCE) / 2) * of_one / math.sqrt(rounds)
    return normal_cdf((found.ahead - needed) / (of_one * math.sqrt(1 / done - 1 / rounds)))

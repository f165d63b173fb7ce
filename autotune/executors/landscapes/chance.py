"""Seeded chance: the same seed and names give the same draws, in whatever order they are asked."""

import math
from random import Random

MOST_PERCENT = 100.0
"""The largest standard deviation that is accepted: more is no machine."""


def generator(*names: object) -> Random:
    """A source of random numbers of its own for `names`."""
    return Random(":".join(map(str, names)))


def sigma(percent: float) -> float:
    """The standard deviation of the logarithm that makes one deviation `percent`."""
    return math.log1p(percent / 100)


def spread(random: Random, percent: float) -> float:
    """A log-normal factor with median 1, so that its logarithm has mean 0."""
    return math.exp(random.gauss(0.0, 1.0) * sigma(percent))

"""What trying something uncertain may gain."""

import math

import numpy as np
from numpy.typing import NDArray

from autotune.scoring.distributions import normal_cdf


def expected_improvement(ahead: float, deviation: float) -> float:
    """Of a normal variable with mean `ahead` over 0.

    Source: Jones, Schonlau and Welch, Efficient Global Optimization of Expensive Black-Box
    Functions (1998).
    """
    if deviation <= 0:
        return max(0.0, ahead)
    z = ahead / deviation
    return ahead * normal_cdf(z) + deviation * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def told_by_one(deviation: float, noise: float) -> float:
    """How far one reading moves a belief with this `deviation`, as a standard deviation.

    Little if the `noise` of a reading is large, and then a launch is worth little. Source: Frazier,
    Powell and Dayanik, The Knowledge-Gradient Policy for Correlated Normal Beliefs (2009).
    """
    whole = math.hypot(deviation, noise)
    return deviation * deviation / whole if whole else 0.0


def shown_by_one(
    ahead: NDArray[np.float64], deviation: NDArray[np.float64], noise: float
) -> NDArray[np.float64]:
    """The expected improvement that one reading each shows, of beliefs in an array."""
    shown = np.vectorize(expected_improvement, otypes=[np.float64])
    told = np.vectorize(told_by_one, otypes=[np.float64])
    return np.asarray(shown(ahead, told(deviation, noise)))

"""The normal and Student's t distribution.

SciPy's special functions take half a second to import, and most commands need none: they are
imported when the first is, or with `load`.
"""

import math
from functools import cache
from statistics import NormalDist
from types import ModuleType


@cache
def _special() -> ModuleType:
    from scipy import special  # noqa: PLC0415

    return special  # type: ignore[no-any-return]


def load() -> None:
    """Import what is needed, at a time when nobody waits for it."""
    _special()


def normal_cdf(z: float) -> float:
    """The probability of at most `z`, exact in the lower tail, too."""
    return math.erfc(-z / math.sqrt(2)) / 2


def normal_quantile(probability: float) -> float:
    """What is at most reached with a probability above 0 and below 1."""
    return NormalDist().inv_cdf(probability)


def t_quantile(freedom: float, probability: float) -> float:
    """Student's t with so many degrees of freedom, above 0: at most reached with `probability`."""
    return float(_special().stdtrit(freedom, probability))

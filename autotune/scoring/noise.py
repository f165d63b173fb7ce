"""How far launches of one candidate differ, and windows of one launch: pooled over a study.

All figures are standard deviations of log(samples/s), which for small ones is the relative spread.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

PRIOR_LAUNCH = 0.035
"""What is assumed before a study has measured it: two ranks on two quiet cores differed by 3 to 4 %
from launch to launch."""
PRIOR_WINDOW = 0.05
PRIOR_FREEDOM = 2
"""Degrees of freedom that the assumption counts for: a handful of launches outweighs it."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """The two levels of noise of one study on one machine."""

    launch: float = PRIOR_LAUNCH
    """Between launches of one candidate, that of their windows' median included."""
    window: float = PRIOR_WINDOW
    """Between the windows of one launch."""
    freedom: int = PRIOR_FREEDOM
    """Degrees of freedom of `launch`."""

    def pooled(self, deviation: float, freedom: int) -> "Noise":
        """With another estimate of `launch` taken in, of so many degrees of freedom."""
        squares = self.freedom * self.launch**2 + freedom * deviation**2
        together = self.freedom + freedom
        return replace(self, launch=math.sqrt(squares / together), freedom=together)


class Pool:
    """A pooled standard deviation, to which groups of values are added one by one."""

    def __init__(self, prior: float) -> None:
        self._squares = PRIOR_FREEDOM * prior**2
        self.freedom = PRIOR_FREEDOM

    def add(self, values: Sequence[float]) -> None:
        """Take in the spread of a group of values about their own mean."""
        if len(values) > 1:
            mean = fmean(values)
            self._squares += sum((value - mean) ** 2 for value in values)
            self.freedom += len(values) - 1

    @property
    def deviation(self) -> float:
        return math.sqrt(self._squares / self.freedom)

"""Which windows of a launch were disturbed: named and counted, never dropped."""

from collections.abc import Sequence
from statistics import fmean, median

LIMIT = 3.5
"""Modified z-score above which a value is an outlier."""
_NORMAL_MAD = 0.6745
"""Median absolute deviation of a normal distribution over its standard deviation."""
_NORMAL_MEAN_DEVIATION = 0.7979
"""The same of the mean absolute deviation, sqrt(2 / pi)."""
_LEAST = 3
"""With fewer values none is out of line."""


def outliers(values: Sequence[float]) -> list[int]:
    """Positions of the values that lie far from the others.

    By the modified z-score about the median. Where more than half of the values are equal their
    median absolute deviation is 0, and the mean one takes its place; where all are equal nothing is
    an outlier. Source: Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993), chapter 3.
    """
    if len(values) < _LEAST:
        return []
    centre = median(values)
    distances = [abs(value - centre) for value in values]
    scale = median(distances) / _NORMAL_MAD or fmean(distances) / _NORMAL_MEAN_DEVIATION
    if not scale:
        return []
    return [index for index, distance in enumerate(distances) if distance / scale > LIMIT]

"""Compares finalists with the baseline from interleaved launches.

Each round launches every arm once, in random order: a randomised complete block design with rounds
as blocks. Logarithms make ratios additive, and the blocks take drift out. The residual variance of
the additive two-way model, with (rounds - 1)(arms - 1) degrees of freedom, gives a t interval on
each finalist's log ratio; Bonferroni's correction makes the intervals hold together.
Source: Montgomery, Design and Analysis of Experiments, chapter 4.1.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TypeVar

from scipy.special import stdtrit

from autotune.model import Ratio

CONFIDENCE = 0.95
Arm = TypeVar("Arm")


def ratios(
    baseline: Sequence[float],
    finalists: Mapping[Arm, Sequence[float]],
    confidence: float = CONFIDENCE,
) -> dict[Arm, Ratio]:
    """The ratio of each finalist to the baseline, with intervals that hold together.

    All sequences hold samples/s, one for each round, in the order of rounds. Needs two rounds or
    more and a finalist; raises ValueError otherwise.
    """
    rounds = len(baseline)
    if rounds < 2 or not finalists or any(len(f) != rounds for f in finalists.values()):
        raise ValueError("needs two complete rounds or more, and a finalist")
    table = [[math.log(value) for value in arm] for arm in (baseline, *finalists.values())]
    freedom = (rounds - 1) * (len(table) - 1)
    error = math.sqrt(_residual_squares(table) / freedom * 2 / rounds)
    tail = (1 - confidence) / 2 / len(finalists)
    margin = float(stdtrit(freedom, 1 - tail)) * error
    result = {}
    for arm, logs in zip(finalists, table[1:], strict=True):
        centre = fmean(logs) - fmean(table[0])
        result[arm] = Ratio(
            estimate=math.exp(centre),
            low=math.exp(centre - margin),
            high=math.exp(centre + margin),
            confidence=confidence,
        )
    return result


def _residual_squares(table: Sequence[Sequence[float]]) -> float:
    """Sum of squares left after each row's and each column's mean."""
    rows = [fmean(row) for row in table]
    columns = [fmean(column) for column in zip(*table, strict=True)]
    grand = fmean(rows)
    return sum(
        (value - row - column + grand) ** 2
        for row, values in zip(rows, table, strict=True)
        for column, value in zip(columns, values, strict=True)
    )

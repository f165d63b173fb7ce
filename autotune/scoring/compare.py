"""Compares finalists with the baseline from interleaved launches.

Each round launches every arm once, in random order: a randomised complete block design with rounds
as blocks. Logarithms make ratios additive, and the blocks take drift out. The residual variance of
the additive two-way model, with (rounds - 1)(arms - 1) degrees of freedom, gives a t interval on
each finalist's log ratio; Bonferroni's correction makes the intervals hold together.
Source: Montgomery, Design and Analysis of Experiments, chapter 4.1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from autotune.model import Ratio
from autotune.scoring.distributions import t_quantile

CONFIDENCE = 0.95
Arm = TypeVar("Arm")


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One finalist less the baseline, in log(samples/s)."""

    ahead: float
    error: float
    """Standard error of `ahead`."""
    freedom: int

    def ratio(self, tail: float, confidence: float) -> Ratio:
        """With the t interval that leaves `tail` on each side."""
        margin = t_quantile(self.freedom, 1 - tail) * self.error
        return Ratio(
            estimate=math.exp(self.ahead),
            low=math.exp(self.ahead - margin),
            high=math.exp(self.ahead + margin),
            confidence=confidence,
        )


def contrasts(
    baseline: Sequence[float], finalists: Mapping[Arm, Sequence[float]]
) -> dict[Arm, Contrast]:
    """How far each finalist is ahead of the baseline.

    All sequences hold samples/s, one for each round, in the order of rounds. Needs two rounds or
    more and a finalist; raises ValueError otherwise.
    """
    rounds = len(baseline)
    if rounds < 2 or not finalists or any(len(f) != rounds for f in finalists.values()):
        raise ValueError("needs two complete rounds or more, and a finalist")
    table = [[math.log(value) for value in arm] for arm in (baseline, *finalists.values())]
    freedom = (rounds - 1) * (len(table) - 1)
    error = math.sqrt(_residual_squares(table) / freedom * 2 / rounds)
    return {
        arm: Contrast(ahead=fmean(logs) - fmean(table[0]), error=error, freedom=freedom)
        for arm, logs in zip(finalists, table[1:], strict=True)
    }


def ratios(
    baseline: Sequence[float],
    finalists: Mapping[Arm, Sequence[float]],
    confidence: float = CONFIDENCE,
    share: float = 1.0,
) -> dict[Arm, Ratio]:
    """The ratio of each finalist to the baseline, with intervals that hold together.

    `share` is what these intervals may spend of the error, the rest of which other looks at the
    same rounds may spend. Raises ValueError as `contrasts` does.
    """
    tail = share * (1 - confidence) / 2 / max(1, len(finalists))
    found = contrasts(baseline, finalists)
    return {arm: contrast.ratio(tail, confidence) for arm, contrast in found.items()}


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

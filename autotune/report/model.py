"""What each value and each pair of values did to the speed, estimated from all trials together.

log(samples/s) of a candidate is thought to be the baseline's level, plus an effect of each of its
values, plus one of each pair of them, plus something of its own that no sum can say; a reading adds
the study's noise. All have normal priors, whose size for a knob is what `effect` in the knobs'
files stands for. The posterior is worked out over candidates (a Gaussian process with a linear
kernel), so that its cost doesn't grow with the number of terms. The scale of the priors is the one
under which the readings are likeliest.
Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), 2.1, 2.2 and 5.4.1.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from autotune.model import Candidate
from autotune.report.readings import Point
from autotune.report.terms import Term, pairs_of, values_of
from autotune.strategies.knob_features import INTERACTION, OWN
from autotune.strategies.linear_model import SCALES

MOST_CANDIDATES = 400
"""The baseline and the latest others: the time grows with the cube of their number."""
_LEVEL = 1.0
"""Prior deviation of the baseline's own level about the mean reading."""

Array = NDArray[np.float64]
Size = Callable[[str], float]
"""Prior standard deviation of the effect of a knob, by its name."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A belief about an effect, in log(samples/s)."""

    mean: float
    deviation: float
    before: float
    """Standard deviation of the prior: as large as `deviation` if no trial told anything."""


class EffectModel:
    """The posterior over all effects, given a study's readings."""

    def __init__(self, points: Sequence[Point], baseline: Candidate, size: Size) -> None:
        groups = _grouped(points, baseline)
        self.candidates = list(groups)
        self._size = size
        values = values_of(self.candidates, baseline)
        self.values = _holders([[(value,) for value in own] for own in values])
        """Positions of the candidates that have each value."""
        pairs = _holders([pairs_of(own) for own in values])
        self.pairs = {pair: holders for pair, holders in pairs.items() if len(holders) > 1}
        """The same for pairs. What one candidate alone has can't be told from its own."""
        self._alone = np.zeros(len(values))
        for pair, holders in pairs.items():
            if pair not in self.pairs:
                self._alone[holders] += self._variance(pair)
        self._rates = np.array([_mean(group) for group in groups.values()])
        self._centre = float(self._rates.mean())
        self._noise = np.array([1 / sum(1 / p.variance for p in g) for g in groups.values()])
        self._scale = max(SCALES, key=self._evidence)

    def effect(self, term: Term) -> Estimate:
        """Of a value (a term of one), or of a pair beyond what each of the two does."""
        return self.contrast({term: 1.0})

    def contrast(self, weights: Mapping[Term, float]) -> Estimate:
        """Of a weighted sum of effects."""
        variances = {term: self._variance(term) * self._scale**2 for term in weights}
        before = sum(weights[term] ** 2 * variances[term] for term in weights)
        cross = sum(
            (weights[term] * variances[term] * self._column(term) for term in weights),
            start=np.zeros(len(self.candidates)),
        )
        told = cho_solve(self._factor, cross)
        return Estimate(
            mean=float(told @ (self._rates - self._centre)),
            deviation=math.sqrt(max(0.0, before - float(cross @ told))),
            before=math.sqrt(before),
        )

    def _column(self, term: Term) -> Array:
        column = np.zeros(len(self.candidates))
        column[(self.values if len(term) == 1 else self.pairs)[term]] = 1.0
        return column

    def _variance(self, term: Term) -> float:
        least = min(self._size(value.knob) for value in term)
        return (least if len(term) == 1 else INTERACTION * least) ** 2

    @cached_property
    def _factor(self) -> tuple[Array, bool]:
        factor: tuple[Array, bool] = cho_factor(self._covariance(self._scale))
        return factor

    def _covariance(self, scale: float) -> Array:
        together = _LEVEL**2 + scale**2 * self._shared
        own = OWN**2 + scale**2 * self._alone + self._noise
        return np.asarray(together + np.diag(own))

    @cached_property
    def _shared(self) -> Array:
        """What candidates have in common, at scale 1."""
        shared = np.zeros((len(self.candidates), len(self.candidates)))
        for term, holders in [*self.values.items(), *self.pairs.items()]:
            shared[np.ix_(holders, holders)] += self._variance(term)
        return shared

    def _evidence(self, scale: float) -> float:
        """Log likelihood of the readings, up to a constant."""
        factor = cho_factor(self._covariance(scale))
        rates = self._rates - self._centre
        determinant = 2 * float(np.log(np.diag(factor[0])).sum())
        return -0.5 * (float(rates @ cho_solve(factor, rates)) + determinant)


def _grouped(points: Sequence[Point], baseline: Candidate) -> dict[Candidate, list[Point]]:
    groups: dict[Candidate, list[Point]] = {}
    for point in points:
        groups.setdefault(point.candidate, []).append(point)
    first = {baseline: groups.pop(baseline)} if baseline in groups else {}
    latest = list(groups.items())[len(first) - MOST_CANDIDATES :]
    return first | dict(latest)


def _mean(points: Sequence[Point]) -> float:
    weights = [1 / point.variance for point in points]
    total = sum(w * point.log_rate for w, point in zip(weights, points, strict=True))
    return total / sum(weights)


def _holders(terms: Sequence[Sequence[Term]]) -> dict[Term, list[int]]:
    found: dict[Term, list[int]] = {}
    for position, own in enumerate(terms):
        for term in own:
            found.setdefault(term, []).append(position)
    return found

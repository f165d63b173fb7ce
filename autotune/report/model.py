"""What each value and each pair of values did to the speed, estimated from all trials together.

log(samples/s) of a candidate is thought to be the baseline's level, plus an effect of each of its
values, plus one of each pair of them, plus, with three values or more, something of its own that no
sum of these can say; a reading adds the study's noise. Effects have normal priors, all of one size,
which isn't known: several are tried, and each counts by how likely it makes the readings (Bayesian
model averaging), so that the intervals carry the doubt about it. The posterior is worked out over
candidates (a Gaussian process with a linear kernel): its cost doesn't grow with the terms.
Sources: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), 2.1, 2.2 and 5.4.1;
Hoeting, Madigan, Raftery and Volinsky, Bayesian Model Averaging: A Tutorial (1999).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from autotune.model import Candidate
from autotune.report.readings import Point
from autotune.report.terms import Term, pairs_of, values_of

MOST_CANDIDATES = 400
"""The baseline and the latest others: the time grows with the cube of their number."""
_SIZES = (0.003, 0.01, 0.03, 0.1, 0.3)
"""Prior standard deviations of a value's effect on log(samples/s)."""
_PAIRS = (0.05, 0.5)
"""Of a pair's effect, as a part of that: from hardly any to as strong as seen with FSDP."""
_LEVEL = 1.0
"""Prior deviation of the baseline's own level about the mean reading."""

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A belief about an effect, in log(samples/s)."""

    mean: float
    deviation: float
    before: float
    """Standard deviation of the prior: as large as `deviation` if no trial told anything."""


class EffectModel:
    """The posterior over all effects, given a study's readings."""

    def __init__(self, points: Sequence[Point], baseline: Candidate) -> None:
        groups = _grouped(points, baseline)
        self.candidates = list(groups)
        values = values_of(self.candidates, baseline)
        self.values = _holders([[(value,) for value in own] for own in values])
        """Positions of the candidates that have each value."""
        pairs = _holders([pairs_of(own) for own in values])
        self.pairs = {pair: holders for pair, holders in pairs.items() if len(holders) > 1}
        """The same for pairs. What one candidate alone has can't be told from its own."""
        shared = [_shared(terms, len(values)) for terms in (self.values, pairs)]
        # Up to two values, these effects say all there is.
        own = np.diag([float(len(own) > 2) for own in values])
        rates = np.array([_mean(group) for group in groups.values()])
        noise = np.array([1 / sum(1 / p.variance for p in g) for g in groups.values()])
        fits = [
            _Fit(size, size * part, shared, own, rates, noise)
            for size, part in product(_SIZES, _PAIRS)
        ]
        best = max(fit.evidence for fit in fits)
        self._fits = [(math.exp(fit.evidence - best), fit) for fit in fits]

    def effect(self, term: Term) -> Estimate:
        """Of a value (a term of one), or of a pair beyond what each of the two does."""
        return self.contrast({term: 1.0})

    def contrast(self, weights: Mapping[Term, float]) -> Estimate:
        """Of a weighted sum of values' effects, or of pairs'."""
        column = np.zeros(len(self.candidates))
        for term, weight in weights.items():
            column[(self.values if len(term) == 1 else self.pairs)[term]] += weight
        squares = sum(weight**2 for weight in weights.values())
        is_pair = any(len(term) > 1 for term in weights)
        found = [(w, fit.estimate(column, squares, pair=is_pair)) for w, fit in self._fits]
        return _average(found)


class _Fit:
    """The posterior under one size of the effects."""

    def __init__(
        self,
        value: float,
        pair: float,
        shared: Sequence[Array],
        own: Array,
        rates: Array,
        noise: Array,
    ) -> None:
        self._variances = (value**2, pair**2)
        # As slow to import as the rest of the command, which may be another one.
        from scipy.linalg import cho_factor, cho_solve  # noqa: PLC0415

        covariance = _LEVEL**2 + value**2 * shared[0] + pair**2 * (shared[1] + own) + np.diag(noise)
        factor = cho_factor(covariance)
        self._solve = partial(cho_solve, factor)
        self._centred = rates - rates.mean()
        self._solved = self._solve(self._centred)
        determinant = 2 * float(np.log(np.diag(factor[0])).sum())
        self.evidence = -0.5 * (float(self._centred @ self._solved) + determinant)
        """Log likelihood of the readings, up to a constant."""

    def estimate(self, column: Array, squares: float, *, pair: bool) -> Estimate:
        """Of a sum of effects with `column` as what each candidate has of it."""
        before = self._variances[pair]
        cross = before * column
        told = float(cross @ self._solve(cross))
        return Estimate(
            mean=float(cross @ self._solved),
            deviation=math.sqrt(max(0.0, before * squares - told)),
            before=math.sqrt(before * squares),
        )


def _average(found: Sequence[tuple[float, Estimate]]) -> Estimate:
    total = sum(weight for weight, _ in found)
    mean = sum(w * e.mean for w, e in found) / total
    variance = sum(w * (e.deviation**2 + (e.mean - mean) ** 2) for w, e in found) / total
    before = sum(w * e.before**2 for w, e in found) / total
    return Estimate(mean=mean, deviation=math.sqrt(variance), before=math.sqrt(before))


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


def _shared(terms: Mapping[Term, list[int]], count: int) -> Array:
    """How many of `terms` each two candidates have in common."""
    shared = np.zeros((count, count))
    for holders in terms.values():
        shared[np.ix_(holders, holders)] += 1
    return shared

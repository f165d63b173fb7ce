"""What readings tell of candidates' log(score), by all hypotheses that they leave likely.

Gaussian process regression: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006),
2.2, for each hypothesis of effects_prior.py, weighed by how likely it makes the readings (Bayesian
model averaging: Hoeting, Madigan, Raftery and Volinsky, 1999). The likeliest alone would be too
sure: where the first readings show little, it says that there is nothing to gain.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Self

import numpy as np

from autotune.model import Candidate
from autotune.strategies.base import Comparison
from autotune.strategies.effects_prior import HYPOTHESES, OWN, covariance, variance
from autotune.strategies.knob_features import FeatureTable, Index, Matrix

LIKELY = 0.02
"""Hypotheses that have less of the whole likelihood are left out."""
MOST_JUDGING = 80
"""Candidates, the first ones, whose readings weigh the hypotheses: they tell those apart."""
MOST_KNOWN = 100
"""Candidates that are regressed on, the first and the fastest: more would take longer than they
tell."""


@dataclass(frozen=True, kw_only=True)
class EffectsModel:
    """Beliefs after readings of at least one candidate. In matrices, hypotheses come first."""

    table: FeatureTable
    noise: float
    """Standard deviation of one reading."""
    hypotheses: Matrix
    weights: Matrix
    """How likely each is; together 1."""
    level: float
    """The mean of all candidates, about which effects are."""
    candidates: tuple[Candidate, ...]
    """Those that were read."""
    counts: Matrix
    """How often each was."""
    means: Matrix
    """Of their readings, less `level`: (hypotheses, candidates)."""

    @classmethod
    def of(
        cls, table: FeatureTable, readings: Mapping[Candidate, Sequence[float]], noise: float
    ) -> Self:
        """What `readings` of log(score) tell; candidates without any are passed over."""
        means = {candidate: fmean(read) for candidate, read in readings.items() if read}
        level = fmean(means.values())
        first, *others = means
        others.sort(key=lambda candidate: -means[candidate])
        known = (first, *others[: MOST_KNOWN - 1])
        judging = list(means)[:MOST_JUDGING]
        weights = _likelihoods(
            _prior(table.index(judging), table, HYPOTHESES)
            + np.diag([noise**2 / len(readings[candidate]) for candidate in judging]),
            np.array([means[candidate] - level for candidate in judging]),
        )
        likely = weights >= min(LIKELY, weights.max())
        read = np.array([means[candidate] - level for candidate in known])
        return cls(
            table=table,
            noise=noise,
            hypotheses=HYPOTHESES[likely],
            weights=weights[likely] / weights[likely].sum(),
            level=level,
            candidates=known,
            counts=np.array([len(readings[candidate]) for candidate in known]),
            means=np.broadcast_to(read, (likely.sum(), len(known))),
        )

    def supposing(self, candidates: Sequence[Candidate]) -> Self:
        """One that has read `candidates` to be what this one expects, to predict with.

        It is as sure as readings will make this one, and expects the same.
        """
        expected, _ = self.predict(candidates)
        counts = dict(zip(self.candidates, self.counts, strict=True))
        means = dict(zip(self.candidates, self.means.T, strict=True))
        for candidate, value in zip(candidates, (expected - self.level).T, strict=True):
            count = counts.get(candidate, 0)
            means[candidate] = (count * means.get(candidate, 0.0) + value) / (count + 1)
            counts[candidate] = count + 1
        return replace(
            self,
            candidates=tuple(counts),
            counts=np.array(list(counts.values())),
            means=np.stack(list(means.values()), axis=1),
        )

    def predict(self, candidates: Sequence[Candidate]) -> tuple[Matrix, Matrix]:
        """Means and standard deviations of log(score), each (hypotheses, candidates)."""
        index = self.table.index(candidates)
        beside = _prior(self._index, self.table, self.hypotheses, index)
        prior = variance(self.table.rows(index), self.hypotheses) + OWN**2
        told = (beside * (self._precision @ beside)).sum(axis=1)
        return self._expected(beside), np.sqrt(np.maximum(0.0, prior - told))

    def compare(self, one: Candidate, other: Candidate) -> Comparison | None:
        """How two candidates differ, over all hypotheses; None if one isn't regressed on."""
        if one not in self._place or other not in self._place:
            return None
        means, covariances = self._read
        i, j = self._place[one], self._place[other]
        ahead = means[:, i] - means[:, j]
        variances = covariances[:, i, i] + covariances[:, j, j] - 2 * covariances[:, i, j]
        mean = float(self.weights @ ahead)
        # The law of total variance.
        whole = float(self.weights @ (np.maximum(0.0, variances) + (ahead - mean) ** 2))
        return Comparison(ahead=mean, deviation=math.sqrt(whole))

    def ranked(self) -> list[Candidate]:
        """The candidates that were read, those thought fastest first."""
        order = np.argsort(-(self.weights @ self._read[0]), kind="stable")
        return [self.candidates[place] for place in order]

    @cached_property
    def _index(self) -> Index:
        return self.table.index(self.candidates)

    @cached_property
    def _place(self) -> dict[Candidate, int]:
        return {candidate: place for place, candidate in enumerate(self.candidates)}

    @cached_property
    def _precision(self) -> Matrix:
        """The inverse of the readings' covariance."""
        prior = _prior(self._index, self.table, self.hypotheses)
        return np.asarray(np.linalg.inv(prior + np.diag(self.noise**2 / self.counts)))

    @cached_property
    def _read(self) -> tuple[Matrix, Matrix]:
        """Means and covariances of the candidates that were read."""
        prior = _prior(self._index, self.table, self.hypotheses)
        return self._expected(prior), prior - prior @ self._precision @ prior

    def _expected(self, beside: Matrix) -> Matrix:
        pulled = (self._precision @ self.means[:, :, None])[:, :, 0]
        return self.level + (pulled[:, None, :] @ beside)[:, 0, :]


def _prior(
    one: Index, table: FeatureTable, hypotheses: Matrix, other: Index | None = None
) -> Matrix:
    """Covariances of candidates with one another, or with `other` ones."""
    other = one if other is None else other
    alone = OWN**2 * np.equal.outer(one, other)
    return covariance(table.rows(one), table.rows(other), hypotheses) + alone


def _likelihoods(covariances: Matrix, read: Matrix) -> Matrix:
    """How likely each of the covariances makes the readings; together 1."""
    roots = np.linalg.cholesky(covariances)
    white = np.zeros(roots.shape[:2])
    for place in range(len(read)):
        told = (roots[:, place, :place] * white[:, :place]).sum(axis=1)
        white[:, place] = (read[place] - told) / roots[:, place, place]
    volumes = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    logs = -(white**2).sum(axis=1) / 2 - volumes
    likelihoods = np.exp(logs - logs.max())
    return likelihoods / likelihoods.sum()  # type: ignore[no-any-return]

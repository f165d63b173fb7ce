"""Bayesian linear regression on features that are 0 or 1, learned one reading at a time.

Conjugate normal prior, known noise: Bishop, Pattern Recognition and Machine Learning, 3.3.1, with
the covariance kept up to date by the Sherman-Morrison formula. The scale of the prior is learned
too: models that differ in it predict each reading before they learn it, and the one whose
predictions were likeliest counts (empirical Bayes, 3.5). A reading costs O(features^2).
"""

import math
from collections.abc import Hashable, Iterable, Mapping
from copy import copy

import numpy as np
from numpy.typing import NDArray

Features = Mapping[Hashable, float]
"""The features that are 1, each with the standard deviation of its weight's prior."""
Index = NDArray[np.intp]

SCALES = (1.0, 0.5, 0.25, 0.12)
"""Of the prior's standard deviations: on many machines most settings do less than they could."""
_GROWTH = 64


class LinearModel:
    """The sum of its features' weights, which are independent until readings tie them together."""

    def __init__(self, noise: float) -> None:
        """`noise` is the standard deviation of a reading."""
        self._variance = noise**2
        self._index: dict[Hashable, int] = {}
        self._mean = np.zeros((len(SCALES), _GROWTH))
        self._covariance = np.zeros((len(SCALES), _GROWTH, _GROWTH))
        self._evidence = np.zeros(len(SCALES))

    def index(self, features: Features, unscaled: Features | None = None) -> Index:
        """Positions of `features`, new ones taken in with their prior.

        The prior of `unscaled` ones is the same in every model.
        """
        for key, deviation in features.items():
            self._take_in(key, [scale * deviation for scale in SCALES])
        for key, deviation in (unscaled or {}).items():
            self._take_in(key, [deviation] * len(SCALES))
        keys = [*features, *(unscaled or {})]
        return np.fromiter((self._index[key] for key in keys), dtype=np.intp)

    def learn(self, index: Index, reading: float) -> None:
        """Take in one reading of the sum of the features at `index`."""
        for which in range(len(SCALES)):
            column = self._covariance[which][:, index].sum(axis=1)
            variance = self._variance + column[index].sum()
            surprise = reading - self._mean[which][index].sum()
            self._evidence[which] -= (math.log(variance) + surprise**2 / variance) / 2
            gain = column / variance
            self._mean[which] += gain * surprise
            self._covariance[which] -= np.outer(gain, column)

    def predict(self, index: Index) -> tuple[float, float]:
        """Mean and standard deviation of the sum of the features at `index`."""
        which = self._likeliest
        variance = float(self._covariance[which][np.ix_(index, index)].sum())
        return float(self._mean[which][index].sum()), math.sqrt(max(0.0, variance))

    def difference(self, one: Index, other: Index) -> tuple[float, float]:
        """Mean and standard deviation of the sum at `one` less that at `other`."""
        which = self._likeliest
        index = np.concatenate([one, other])
        signs = np.concatenate([np.ones(len(one)), -np.ones(len(other))])
        variance = float(signs @ self._covariance[which][np.ix_(index, index)] @ signs)
        return float(signs @ self._mean[which][index]), math.sqrt(max(0.0, variance))

    def supposing(self, indexes: Iterable[Index]) -> "LinearModel":
        """One that has read the sums at `indexes` to be what this one expects, to predict with.

        It is as sure as readings will make this one, and expects the same.
        """
        other, which = copy(self), self._likeliest
        other._covariance = self._covariance.copy()
        covariance = other._covariance[which]
        for index in indexes:
            column = covariance[:, index].sum(axis=1)
            covariance -= np.outer(column / (self._variance + column[index].sum()), column)
        return other

    @property
    def _likeliest(self) -> int:
        return int(self._evidence.argmax())

    def _take_in(self, key: Hashable, deviations: list[float]) -> None:
        if key in self._index:
            return
        position = self._index[key] = len(self._index)
        if position == self._mean.shape[1]:
            self._mean = np.pad(self._mean, [(0, 0), (0, position)])
            self._covariance = np.pad(self._covariance, [(0, 0), (0, position), (0, position)])
        self._covariance[:, position, position] = np.square(deviations)

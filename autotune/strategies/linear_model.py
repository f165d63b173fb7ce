"""Bayesian linear regression on features that are 0 or 1, learned one reading at a time.

Conjugate normal prior, known noise: Bishop, Pattern Recognition and Machine Learning, 3.3.1, with
the covariance kept up to date by the Sherman-Morrison formula. A reading costs O(features^2).
"""

import math
from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

Features = Mapping[Hashable, float]
"""The features that are 1, each with the standard deviation of its weight's prior."""
_GROWTH = 64


class LinearModel:
    """The sum of its features' weights, which are independent until readings tie them together."""

    def __init__(self, noise: float) -> None:
        """`noise` is the standard deviation of a reading."""
        self._variance = noise**2
        self._index: dict[Hashable, int] = {}
        self._mean = np.zeros(_GROWTH)
        self._covariance = np.zeros((_GROWTH, _GROWTH))

    def index(self, features: Features) -> NDArray[np.intp]:
        """Positions of `features`, new ones taken in with their prior."""
        for key, deviation in features.items():
            if key not in self._index:
                self._take_in(key, deviation)
        return np.fromiter((self._index[key] for key in features), dtype=np.intp)

    def learn(self, index: NDArray[np.intp], reading: float) -> None:
        """Take in one reading of the sum of the features at `index`."""
        column = self._covariance[:, index].sum(axis=1)
        gain = column / (self._variance + column[index].sum())
        self._mean += gain * (reading - self._mean[index].sum())
        self._covariance -= np.outer(gain, column)

    def predict(self, index: NDArray[np.intp]) -> tuple[float, float]:
        """Mean and standard deviation of the sum of the features at `index`."""
        variance = float(self._covariance[np.ix_(index, index)].sum())
        return float(self._mean[index].sum()), math.sqrt(max(0.0, variance))

    def difference(self, one: NDArray[np.intp], other: NDArray[np.intp]) -> tuple[float, float]:
        """Mean and standard deviation of the sum at `one` less that at `other`."""
        index = np.concatenate([one, other])
        signs = np.concatenate([np.ones(len(one)), -np.ones(len(other))])
        variance = float(signs @ self._covariance[np.ix_(index, index)] @ signs)
        return float(signs @ self._mean[index]), math.sqrt(max(0.0, variance))

    def _take_in(self, key: Hashable, deviation: float) -> None:
        position = self._index[key] = len(self._index)
        if position == len(self._mean):
            self._mean = np.pad(self._mean, (0, position))
            self._covariance = np.pad(self._covariance, (0, position))
        self._covariance[position, position] = deviation**2

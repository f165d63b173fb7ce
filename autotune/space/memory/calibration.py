"""Corrects predictions by the peaks that finished trials measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from autotune.space.memory.predicted import PredictedMemory

PRIOR_SAMPLES = 3
"""Measured layouts that the uncorrected prediction counts as."""
MAX_SAMPLES = 40
"""The latest ones are used: pairs of them are compared, and a correction needs no more."""
LARGEST_FACTOR = 2.0
PRIOR_UNCERTAINTY = 0.15
LEAST_UNCERTAINTY = 0.05
"""Launches of one candidate differ by that much on CPU (benchmarks/README.md)."""
MOST_UNCERTAINTY = 0.3
"""However far off the measured peaks are: without a bound everything would be near."""
DEVIATIONS = 3.0
MAD_TO_DEVIATION = 1.4826
"""Of a normal distribution: Rousseeuw and Croux 1993."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One completed trial: what was predicted for it, and the bytes of its largest rank."""

    predicted: PredictedMemory
    measured_bytes: int


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The correction: needed = predicted + extra + (factor - 1) x activations and logits."""

    extra_bytes: float = 0.0
    factor: float = 1.0
    uncertainty: float = PRIOR_UNCERTAINTY
    """Share of the corrected prediction by which it may be wrong."""

    def correct(self, predicted: PredictedMemory) -> float:
        """Bytes that have to fit, after correction; never negative."""
        scaling = (self.factor - 1) * predicted.scaling_bytes
        return max(0.0, predicted.total_bytes + self.extra_bytes + scaling)


UNCALIBRATED = Calibration()


def calibrate(samples: Sequence[Sample]) -> Calibration:
    """The correction that `samples` suggest, shrunk towards none while they are few.

    The factor is the Theil-Sen slope of the errors over the scaling part, the median of the slopes
    of all pairs (Sen 1968): 29 % of the samples may be arbitrarily wrong. The extra is the median
    of what is left.
    """
    used = _distinct(samples)
    if not used:
        return UNCALIBRATED
    trust = len(used) / (len(used) + PRIOR_SAMPLES)
    slope = trust * _slope(used)
    slope = min(max(slope, 1 / LARGEST_FACTOR - 1), LARGEST_FACTOR - 1)
    extra = trust * median(_error(one) - slope * one.predicted.scaling_bytes for one in used)
    corrected = Calibration(extra_bytes=extra, factor=1 + slope)
    spread = median(_relative_error(corrected, one) for one in used)
    uncertainty = (1 - trust) * PRIOR_UNCERTAINTY + trust * DEVIATIONS * MAD_TO_DEVIATION * spread
    return Calibration(
        extra_bytes=extra,
        factor=1 + slope,
        uncertainty=min(max(LEAST_UNCERTAINTY, uncertainty), MOST_UNCERTAINTY),
    )


def _distinct(samples: Sequence[Sample]) -> list[Sample]:
    """The latest samples, one for each prediction: a layout launched often is still one layout."""
    by_prediction: dict[PredictedMemory, Sample] = {}
    for sample in samples:
        by_prediction.pop(sample.predicted, None)
        by_prediction[sample.predicted] = sample
    return list(by_prediction.values())[-MAX_SAMPLES:]


def _slope(samples: Sequence[Sample]) -> float:
    slopes = [
        (_error(two) - _error(one)) / (two.predicted.scaling_bytes - one.predicted.scaling_bytes)
        for one, two in combinations(samples, 2)
        if one.predicted.scaling_bytes != two.predicted.scaling_bytes
    ]
    return median(slopes) if slopes else 0.0


def _error(sample: Sample) -> int:
    return sample.measured_bytes - sample.predicted.measured_bytes


def _relative_error(calibration: Calibration, sample: Sample) -> float:
    outside = sample.predicted.total_bytes - sample.predicted.measured_bytes
    expected = calibration.correct(sample.predicted) - outside
    return abs(sample.measured_bytes - expected) / max(1.0, expected)

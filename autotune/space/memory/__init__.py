"""How much memory a candidate needs, whether it fits, and what trials teach about it. Pure."""

from autotune.space.memory.calibration import UNCALIBRATED, Calibration, Sample, calibrate
from autotune.space.memory.capacity import Capacity, capacity_of
from autotune.space.memory.fits import Fit, Judge, Judgement, Known
from autotune.space.memory.job import MemoryJob
from autotune.space.memory.predict import predict
from autotune.space.memory.predicted import PredictedMemory, needs_at_least

__all__ = [
    "UNCALIBRATED",
    "Calibration",
    "Capacity",
    "Fit",
    "Judge",
    "Judgement",
    "Known",
    "MemoryJob",
    "PredictedMemory",
    "Sample",
    "calibrate",
    "capacity_of",
    "needs_at_least",
    "predict",
]

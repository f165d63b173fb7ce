"""Frozen dataclasses and enums that every layer shares; the standard library only."""

from autotune.model.best import SCHEMA, BestConfiguration, Evidence, Reading
from autotune.model.candidate import DEFAULT, Candidate, KnobValue
from autotune.model.codec import decode, encode
from autotune.model.fingerprint import Fingerprint
from autotune.model.instance import GIB, MIB, Gpu, Machine
from autotune.model.job import Job
from autotune.model.measurement import (
    AnyMeasurement,
    Measurement,
    SimulatedMeasurement,
    Timings,
    Window,
)
from autotune.model.outcome import TREATMENTS, Lesson, Outcome, Treatment
from autotune.model.script import Samples, Script
from autotune.model.settings import (
    BFLOAT16_FROM,
    ActivationCheckpointing,
    Binding,
    CommunicationHook,
    Dtype,
    ShardingStrategy,
    TrainingSettings,
)
from autotune.model.study import (
    SIMULATED,
    Conclusion,
    Ratio,
    Study,
    StudySpec,
    StudyStatus,
    Target,
)
from autotune.model.trial import (
    DeviceKind,
    MeasurementPlan,
    Phase,
    Trial,
    TrialSpec,
)
from autotune.model.user_workload import UserWorkload
from autotune.model.workload import PRESETS, Form, TransformerConfig, preset

__all__ = [
    "BFLOAT16_FROM",
    "DEFAULT",
    "GIB",
    "MIB",
    "PRESETS",
    "SCHEMA",
    "SIMULATED",
    "TREATMENTS",
    "ActivationCheckpointing",
    "AnyMeasurement",
    "BestConfiguration",
    "Binding",
    "Candidate",
    "CommunicationHook",
    "Conclusion",
    "DeviceKind",
    "Dtype",
    "Evidence",
    "Fingerprint",
    "Form",
    "Gpu",
    "Job",
    "KnobValue",
    "Lesson",
    "Machine",
    "Measurement",
    "MeasurementPlan",
    "Outcome",
    "Phase",
    "Ratio",
    "Reading",
    "Samples",
    "Script",
    "ShardingStrategy",
    "SimulatedMeasurement",
    "Study",
    "StudySpec",
    "StudyStatus",
    "Target",
    "Timings",
    "TrainingSettings",
    "TransformerConfig",
    "Treatment",
    "Trial",
    "TrialSpec",
    "UserWorkload",
    "Window",
    "decode",
    "encode",
    "preset",
]

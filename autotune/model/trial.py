"""A trial: what it was asked to do, and how it is recorded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from autotune.errors import FieldError
from autotune.model.candidate import Candidate
from autotune.model.measurement import AnyMeasurement
from autotune.model.outcome import Outcome
from autotune.model.script import Script
from autotune.model.settings import TrainingSettings


class DeviceKind(StrEnum):
    """What the ranks compute on; it decides the backend (NCCL or Gloo) and the dtype."""

    CUDA = "cuda"
    CPU = "cpu"

    @property
    def backend(self) -> str:
        return "nccl" if self is DeviceKind.CUDA else "gloo"


@dataclass(frozen=True, kw_only=True)
class MeasurementPlan:
    """How long a trial measures. Steps are optimizer steps, times are seconds."""

    min_warmup_steps: int = 3
    """Steps that are run in any case before the windows."""
    max_warmup_steps: int = 50
    max_warmup_s: float = 20.0
    """Steps are warm-up until their times have settled (docs/scoring.md), or until one of these is
    reached. The first step's seconds, in which it may compile, don't count."""
    windows: int = 5
    window_s: float = 0.25
    """Length that a window aims at; its number of steps follows from the warm-up's last ones."""
    max_steps_per_window: int = 200
    communication: bool = False
    """Whether the share of communication is measured too: three more steps after the windows."""

    def __post_init__(self) -> None:
        for name in ("min_warmup_steps", "windows", "max_steps_per_window"):
            if getattr(self, name) < 1:
                raise FieldError(name, getattr(self, name), "has to be at least 1")
        if self.max_warmup_steps < self.min_warmup_steps:
            rule = f"has to be at least min_warmup_steps, {self.min_warmup_steps}"
            raise FieldError("max_warmup_steps", self.max_warmup_steps, rule)
        for name in ("max_warmup_s", "window_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise FieldError(name, getattr(self, name), "has to be positive and finite")


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """Everything that the ranks of one trial need, beside their rank and the rendezvous."""

    trial_id: str
    workload: str
    """A built-in workload's name, or what says how to build one: `my_pkg.my_module:build`."""
    workload_folder: str = ""
    """Where the module of `workload` is imported from, if it isn't installed."""
    script: Script | None = None
    """What is started in place of building `workload`."""
    settings: TrainingSettings
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the candidate; every rank checks that it really sees them."""
    device: DeviceKind
    seed: int = 0
    plan: MeasurementPlan = MeasurementPlan()
    collective_timeout_s: float = 60.0


class Phase(StrEnum):
    """What a trial was launched for."""

    BASELINE = "baseline"
    SEARCH = "search"
    CONTEND = "contend"
    """A further launch of a candidate that is close to the best."""
    CONFIRM = "confirm"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The record of one launch, stored the moment it ends."""

    run_id: str
    number: int
    """Position in the run, from 0; a trial that is run again gets a new number."""
    phase: Phase
    candidate: Candidate
    settings: TrainingSettings
    environment: Mapping[str, str]
    outcome: Outcome
    reason: str
    """One sentence on the outcome's cause; empty when completed."""
    failed_rank: int | None
    started_at: datetime
    seconds: float
    """Launch to the end of the last process."""
    measurement: AnyMeasurement | None
    log_path: str
    log_tail: str
    left_behind: str = ""
    """Processes, memory or files that outlived it, and what became of them; empty if none did."""

    @property
    def scored(self) -> AnyMeasurement | None:
        """The measurement, if the trial counts as a result of its candidate."""
        return self.measurement if self.outcome is Outcome.COMPLETED else None

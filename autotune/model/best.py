"""The answer of a study: the content of the YAML file and of `autotune best`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from autotune.errors import FieldError
from autotune.model.candidate import KnobValue
from autotune.model.fingerprint import Fingerprint
from autotune.model.script import Script
from autotune.model.settings import TrainingSettings
from autotune.model.study import Conclusion, Ratio, Target
from autotune.model.trial import DeviceKind

SCHEMA = "autotune/v1"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Throughput of one candidate over its launches."""

    samples_per_second: float
    """Mean over launches."""
    spread_percent: float | None
    """Sample standard deviation between launches, in percent of the mean; None for one launch."""
    launches: int
    stability: float
    """Between 0 and 1, see scoring."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Why the settings are what they are. All figures are measured ones."""

    baseline: Reading | None
    """None when the baseline itself doesn't run; `reason` then says why."""
    winner: Reading | None
    ratio: Ratio | None
    """Winner over baseline, by launches interleaved with each other."""
    device: DeviceKind
    trials: int
    reason: str
    pinned: Mapping[str, KnobValue] = field(default_factory=dict)
    """Knobs that the user held at one value, in the baseline too."""
    only: tuple[str, ...] = ()
    """The knobs that were searched, if the user named them."""
    shared_with: tuple[str, ...] = ()
    """Other runs that trained on the machine meanwhile, as sentences would name them."""
    fingerprint: Fingerprint | None = None
    """None for answers that were kept before there was one."""
    script: Script | None = None
    """What was started, if the workload is a script of the user's."""


@dataclass(frozen=True, kw_only=True)
class BestConfiguration:
    """A configuration that a launch can use, and what speaks for it."""

    target: Target
    conclusion: Conclusion
    settings: TrainingSettings
    environment: Mapping[str, str]
    evidence: Evidence
    versions: Mapping[str, str]
    run_id: str
    created_at: datetime

    def __post_init__(self) -> None:
        if self.target.is_simulated:
            raise FieldError(
                "target.instance",
                self.target.instance,
                "is a simulation: what it says is not a configuration of any machine",
            )
        batch = self.settings.global_batch(self.target.ranks)
        if batch != self.target.global_batch:
            raise FieldError(
                "settings",
                f"{self.settings.micro_batch} x {self.settings.accumulation_steps} x "
                f"{self.target.ranks} ranks = {batch}",
                f"has to give the target's global batch of {self.target.global_batch}",
            )
        if self.conclusion is Conclusion.NO_CANDIDATE:
            raise FieldError("conclusion", self.conclusion.value, "leaves nothing to save")

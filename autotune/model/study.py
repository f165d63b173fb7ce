"""A study: what was asked of it, its state, and what it concluded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from autotune.errors import FieldError
from autotune.model.candidate import KnobValue
from autotune.model.instance import Machine
from autotune.model.user_workload import UserWorkload

SIMULATED = "simulated:"
"""How the names of machines that aren't there begin; no real instance has such a name."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a configuration is best for: nothing is compared or reused across targets."""

    instance: str
    nodes: int
    ranks_per_node: int
    workload: str
    global_batch: int
    """Samples per optimizer step."""

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def is_simulated(self) -> bool:
        """Whether nothing on it is measured, so that nothing is saved for it."""
        return self.instance.startswith(SIMULATED)

    def describe(self) -> str:
        return (
            f"{self.workload} on {self.instance}, {self.nodes} node{'s' * (self.nodes != 1)} x "
            f"{self.ranks_per_node} rank{'s' * (self.ranks_per_node != 1)}, "
            f"global batch {self.global_batch}"
        )


@dataclass(frozen=True, kw_only=True)
class StudySpec:
    """Everything that a study depends on, so that it can be resumed from the store alone."""

    target: Target
    budget_s: float | None = None
    """Wall time for the whole study, over all its invocations."""
    max_trials: int | None = None
    """Candidates tried in the search, beside baseline and confirmation."""
    seed: int = 0
    pinned: Mapping[str, KnobValue] = field(default_factory=dict)
    """Knobs held at one value, in the baseline too."""
    only: tuple[str, ...] = ()
    """If not empty, the only knobs that are searched."""
    space: str = "default"
    """How much is searched: `default`, `full`, or the name of a user's file of knobs."""
    space_text: str = ""
    """Content of that file, which may change or go before the study is resumed."""
    instances_text: str = ""
    """Content of a user's file of instances."""
    allow_lossy: bool = False
    """Values that change numerics are candidates too."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the user's that hold knobs in every trial."""
    landscape: str = ""
    """What a simulated study runs on: a landscape's name, or the path of a user's file. Empty
    also for a landscape that was made in code."""
    landscape_text: str = ""
    """Content of that file."""
    window_s: float | None = None
    """Length of a measured window; None is a plan's default."""
    search: str = "staged"
    """Name of the strategy."""
    own_workload: UserWorkload | None = None
    """What the target's workload builds, if it isn't built in."""
    parallel_trials: int | None = 1
    """Trials of the search at once, each on nodes of its own; None is as many as there is room for.
    """
    output: str | None = None
    """Path of the YAML file, if not the default."""

    def __post_init__(self) -> None:
        if self.budget_s is not None and not 0 < self.budget_s < float("inf"):
            raise FieldError("budget_s", self.budget_s, "has to be positive and finite")
        if self.window_s is not None and not 0 < self.window_s < float("inf"):
            raise FieldError("window_s", self.window_s, "has to be positive and finite")
        if self.max_trials is not None and self.max_trials < 0:
            raise FieldError("max_trials", self.max_trials, "has to be 0 or more")
        if self.parallel_trials is not None and self.parallel_trials < 1:
            raise FieldError("parallel_trials", self.parallel_trials, "has to be 1 or more")
        if self.landscape and not self.target.is_simulated:
            raise FieldError(
                "landscape", self.landscape, f"contradicts the instance {self.target.instance}"
            )


class StudyStatus(StrEnum):
    """Where a study stands."""

    RUNNING = "running"
    """Started and not ended: under way, or its controller died."""
    INTERRUPTED = "interrupted"
    """Ended by the person; can be resumed."""
    FINISHED = "finished"


class Conclusion(StrEnum):
    """What a study says."""

    IMPROVED = "improved"
    KEEP_DEFAULTS = "keep_defaults"
    UNCONFIRMED = "unconfirmed"
    """A candidate looked best in the search and wasn't measured against the baseline again."""
    NO_CANDIDATE = "no_candidate"
    """Nothing that was tried works, the baseline included."""


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """An estimate of winner over baseline, with its confidence interval."""

    estimate: float
    low: float
    high: float
    confidence: float
    """For example 0.95; simultaneous over all finalists."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """The record of a study. Its trials and its best configuration are stored beside it."""

    run_id: str
    spec: StudySpec
    machine: Machine
    status: StudyStatus
    created_at: datetime
    updated_at: datetime
    conclusion: Conclusion | None = None
    reason: str = ""

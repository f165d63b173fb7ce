"""What is known of a launch once its processes are gone."""

from dataclasses import dataclass
from enum import StrEnum

from autotune.executors.standing import Standing
from autotune.model import Measurement, Outcome
from autotune.model.protocol import Failed, FailureKind


class Halt(StrEnum):
    """Why the launcher ended a trial whose ranks hadn't failed."""

    CANCEL = "cancel"
    TIME_LIMIT = "time_limit"
    NEVER_STARTED = "never_started"
    NO_PROGRESS = "no_progress"
    """They gave no sign of life for too long."""


@dataclass(frozen=True, kw_only=True)
class RankExit:
    """How one rank's process ended, as its node has it."""

    rank: int
    exit_status: int | None
    """A signal's number negated; None if even KILL didn't end it."""
    ended_by_us: bool = False
    """It ran until the launcher ended it."""
    lost: str = ""
    """Why it ended by no fault of the trial and nobody knows how, or empty."""
    log_path: str = ""
    log_tail: str = ""
    """For people."""
    log_end: str = ""
    """For the diagnosis, so more of it."""


@dataclass(frozen=True, kw_only=True)
class NodeLoss:
    """A node went away in the middle of a trial, and its ranks with it."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True, kw_only=True)
class NodesEnd:
    """What nodes know of a trial once its processes there are gone."""

    ranks: tuple[RankExit, ...]
    survivors: tuple[int, ...] = ()
    """Pids that even KILL didn't end."""
    oom_kills: int = 0
    """Processes that the kernel ended for want of memory while the trial ran."""
    kernel_log: str = ""
    """What the kernel logged while the trial ran, as far as it may be read."""
    loss: NodeLoss | None = None
    """Of a node that couldn't be reached any more to end its ranks."""


@dataclass(frozen=True, kw_only=True)
class RankEnd:
    """What is known of one rank."""

    rank: int
    exit_status: int | None
    """A signal's number negated; None if even KILL didn't end it."""
    ended_by_us: bool
    """It ran until the launcher ended it."""
    started: bool
    lost: str = ""
    """Why it ended by no fault of the trial and nobody knows how, or empty."""
    failed: Failed | None = None
    fault: str = ""
    """What was wrong with what it sent, or empty."""
    trouble: int | None = None
    """Position of its first sign of trouble among those of all ranks; None if there was none."""
    trouble_after_result: bool = False
    log_path: str = ""
    log_tail: str = ""
    """For people."""
    log_end: str = ""
    """For the diagnosis, so more of it; empty for a rank that ended well."""

    @property
    def died(self) -> bool:
        """It ended by itself and not well."""
        return not self.ended_by_us and self.exit_status not in (0, None)

    @property
    def left(self) -> bool:
        """It ended by itself, well, and sent nothing."""
        return not self.ended_by_us and self.exit_status == 0 and self.failed is None

    @property
    def waited_in_vain(self) -> bool:
        return self.failed is not None and self.failed.kind is FailureKind.COLLECTIVE


@dataclass(frozen=True, kw_only=True)
class LaunchFacts:
    """What is known of a launch whose processes are all gone."""

    ranks: tuple[RankEnd, ...]
    measurement: Measurement | None
    windows: int
    """That rank 0 has closed."""
    planned_windows: int
    stopped: bool
    """The loop answered a window with STOP."""
    halt: Halt | None
    seconds: float
    has_environment: bool
    """The candidate sets variables, so it may be the reason why ranks never meet."""
    oom_kills: int
    """Processes that the kernel ended for want of memory while the trial ran."""
    kernel_log: str = ""
    """What the kernel logged while the trial ran, as far as it may be read."""
    silent_s: float = 0.0
    """Since the last sign of life, when the launcher ended the trial."""
    expected_s: float = 0.0
    """What it was expected to take from that sign to the next."""
    steps: int = 0
    """That rank 0 had told of before the first window."""
    standings: tuple[Standing, ...] = ()
    """What the living ranks were at, if the trial hung."""
    survivors: tuple[int, ...] = ()
    """Pids that even KILL didn't end."""
    loss: NodeLoss | None = None
    """A node that is gone; ranks that lost it are its victims."""

"""What every executor promises: it launches trials and says how they ended."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Self

from autotune.errors import UserError
from autotune.model import AnyMeasurement, Machine, Outcome, TrialSpec, UserWorkload, Window
from autotune.model.protocol import Verdict


def check_unchanged(workload: UserWorkload | None) -> None:
    """Raises UserError if the user's file is another one than when the study began."""
    if workload is not None and (changed := workload.changed()):
        raise UserError(
            f"{changed}: trials before and after can't be compared",
            hint="put the file back as it was and resume the run, or start a new one",
        )


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One trial to launch. Times are in seconds."""

    spec: TrialSpec
    nodes: int
    ranks_per_node: int
    directory: Path
    """The trial's own folder, made by the executor; logs stay there."""
    time_limit_s: float
    first_step_limit_s: float = 300.0
    """From when the ranks have met to the end of the first step: building, and compiling if so."""
    wait_limit_s: float | None = None
    """For a machine in the place of a lost one; None is as long as the executor sees fit."""
    fresh: bool = True
    """Its processes run no other trial, neither before nor after."""


@dataclass(frozen=True, kw_only=True)
class LaunchEnd:
    """How a launch ended.

    A trial that obeyed STOP before its last planned window is PRUNED, one that obeyed ENOUGH is
    COMPLETED; its measurement holds the windows until then.
    """

    outcome: Outcome
    reason: str = ""
    """A sentence that a person can act on; empty when completed."""
    failed_rank: int | None = None
    """The rank that is the cause, not one of its victims."""
    measurement: AnyMeasurement | None = None
    log_path: str = ""
    log_tail: str = ""
    left_behind: str = ""
    """What the launch left and what became of it, beside the reason; empty if nothing."""
    prepared_s: float = 0.0
    """Seconds before the trial began: for what outlives trials to be there, such as agents."""


OnWindow = Callable[[Window], Verdict]


class Executor(ABC):
    """Launches trials, one at a time unless `at_once` says more. It knows nothing of searching.

    Whatever happens inside a trial comes back as a LaunchEnd, never as an exception, and no process
    of a trial lives when `run` returns, unless it waits for the next trial. ExecutorError is for
    machines that can't launch any.
    """

    @property
    def at_once(self) -> int:
        """How many may run at the same time, each from a thread of its own; may become fewer."""
        return 1

    def narrow(self) -> None:  # noqa: B027 - most do so anyway
        """Run one at a time from now on; called while none runs."""

    @abstractmethod
    def machine(self) -> Machine:
        """The nodes that trials run on, which are all alike."""

    @abstractmethod
    def run(self, launch: Launch, on_window: OnWindow, cancel: Event) -> LaunchEnd:
        """Launch, watch, and end a trial; `cancel` set from another thread ends it early.

        `on_window` is called for each window as it closes; its verdict is obeyed by all ranks.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to end
        """End everything that was kept for later trials."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

"""The nodes of a trial as the launcher sees them: one in this process, or many elsewhere."""

from dataclasses import dataclass
from typing import Protocol

from autotune.executors.channel import Closed, Fault, Received
from autotune.executors.launch_facts import NodeLoss, NodesEnd
from autotune.executors.standing import Standing
from autotune.model import Outcome
from autotune.model.protocol import Answer


class StartError(Exception):
    """A trial can't be started on its nodes now; its text says why."""

    def __init__(self, reason: str, outcome: Outcome = Outcome.ENVIRONMENT) -> None:
        super().__init__(reason)
        self.outcome = outcome


@dataclass(frozen=True, kw_only=True)
class Exited:
    """A rank's process has ended; everything that it had sent was told before."""

    rank: int
    exit_status: int
    """A signal's number negated."""


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A node is gone, and its ranks with it."""

    loss: NodeLoss


NodeEvent = Received | Fault | Closed | Exited | Lost


class Nodes(Protocol):
    """Where one trial's ranks run. Calls come from one thread."""

    def wait(self, timeout_s: float) -> list[NodeEvent]:
        """What happens within `timeout_s`, as soon as anything has, in the order of each rank."""

    def send(self, rank: int, answer: Answer) -> Fault | None:
        """Send a rank its answer. One that is gone is found out by `wait`."""

    def inspect(self) -> tuple[Standing, ...]:
        """What the living ranks are at, as far as they say; takes up to 2 seconds."""

    def end(self, *, may_stay: bool) -> NodesEnd:
        """End every process of the trial.

        With `may_stay`, ranks that can run another trial are left to wait for it.
        """

    def finish(self, *, well: bool) -> str:
        """Remove what is left after the end; says what there was, or nothing.

        Logs of a trial that went `well` are cut to their beginning and end.
        """

    def abandon(self) -> None:
        """End and remove everything of a trial that wasn't finished; else do nothing."""

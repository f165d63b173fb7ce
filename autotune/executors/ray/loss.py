"""What it means for a trial that one of its nodes can't be asked any more. Pure."""

from ray.exceptions import ActorDiedError, GetTimeoutError, OutOfMemoryError, RayError, RayTaskError

from autotune.executors.launch_facts import NodeLoss
from autotune.model import Outcome

UNREACHABLE = (RayError, ConnectionError, TimeoutError)
"""What a call to an agent ends with that gives no result."""


def is_there(error: Exception) -> bool:
    """Whether the agent lives, although its call ended so."""
    return isinstance(error, RayTaskError | GetTimeoutError)


def silent(name: str, silent_s: float) -> NodeLoss:
    """The node hasn't answered for so long."""
    reason = f"{name} went away: its agent hasn't answered for {silent_s:.0f} s"
    return NodeLoss(outcome=Outcome.PREEMPTED, reason=reason)


def lost(name: str, error: Exception) -> NodeLoss:
    """A call of the node's agent ended with `error`."""
    if isinstance(error, OutOfMemoryError):
        reason = f"{name} ran out of memory, so that Ray ended the ranks there"
        return NodeLoss(outcome=Outcome.OUT_OF_MEMORY, reason=reason)
    if isinstance(error, RayTaskError):
        reason = f"the agent on {name} failed: {error.cause!r}"
        return NodeLoss(outcome=Outcome.ENVIRONMENT, reason=reason)
    why = "its agent has died" if isinstance(error, ActorDiedError) else "its agent doesn't answer"
    reason = f"{name} went away: {why} ({type(error).__name__})"
    return NodeLoss(outcome=Outcome.PREEMPTED, reason=reason)

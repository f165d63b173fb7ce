"""How a trial ended."""

from enum import StrEnum


class Outcome(StrEnum):
    """How a trial ended. Only COMPLETED trials are scored."""

    COMPLETED = "completed"
    PRUNED = "pruned"
    """Stopped by the loop because it could no longer win."""
    OUT_OF_MEMORY = "out_of_memory"
    HUNG = "hung"
    CRASHED = "crashed"
    INVALID_KNOB = "invalid_knob"
    """NCCL or PyTorch refused a setting."""
    DIVERGED = "diverged"
    """The loss or the gradient norm was not finite."""
    TIMED_OUT = "timed_out"
    NO_METRIC = "no_metric"
    """Every rank exited cleanly, yet no result arrived."""
    PREEMPTED = "preempted"
    PLACEMENT = "placement"
    ENVIRONMENT = "environment"
    """The machine, not the candidate, is at fault."""
    CANCELLED = "cancelled"
    """Ended because the person or the controller stopped the run."""

    @property
    def is_infeasible(self) -> bool:
        """Whether the candidate itself is what failed, so that trying it again is pointless."""
        return self in _INFEASIBLE

    @property
    def is_final(self) -> bool:
        """Whether the trial tells something about its candidate; if not, it may be run again."""
        return self not in _RETRIED


_INFEASIBLE = {
    Outcome.OUT_OF_MEMORY,
    Outcome.HUNG,
    Outcome.CRASHED,
    Outcome.INVALID_KNOB,
    Outcome.DIVERGED,
    Outcome.TIMED_OUT,
    Outcome.NO_METRIC,
}
_RETRIED = {
    Outcome.PREEMPTED,
    Outcome.PLACEMENT,
    Outcome.ENVIRONMENT,
    Outcome.CANCELLED,
}

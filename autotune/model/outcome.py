"""How a trial ended, and what follows from it."""

from dataclasses import dataclass
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
    def treatment(self) -> "Treatment":
        """What follows from it."""
        return TREATMENTS[self]

    @property
    def is_infeasible(self) -> bool:
        """Whether the candidate itself is what failed, so that trying it again is pointless."""
        return self.treatment.lesson is Lesson.INFEASIBLE

    @property
    def is_final(self) -> bool:
        """Whether the trial tells something about its candidate; if not, it may be run again."""
        return self.treatment.lesson is not Lesson.NOTHING


class Lesson(StrEnum):
    """What a trial's outcome teaches the search about its candidate."""

    SCORE = "score"
    LOST = "lost"
    """It is worse than the best so far; nobody knows by how much."""
    INFEASIBLE = "infeasible"
    """It doesn't work here, and neither does what needs more of what it lacked."""
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class Treatment:
    """What follows from an outcome."""

    lesson: Lesson
    retries: int = 0
    """Further launches of the same candidate, elsewhere if possible."""
    ends_study_after: int | None = None
    """So many of such outcomes in a row end the study."""


_INFEASIBLE = Treatment(lesson=Lesson.INFEASIBLE, ends_study_after=10)
_MACHINES_FAULT = Treatment(lesson=Lesson.NOTHING, retries=2, ends_study_after=3)
TREATMENTS = {
    Outcome.COMPLETED: Treatment(lesson=Lesson.SCORE),
    Outcome.PRUNED: Treatment(lesson=Lesson.LOST),
    Outcome.OUT_OF_MEMORY: _INFEASIBLE,
    Outcome.HUNG: _INFEASIBLE,
    Outcome.CRASHED: _INFEASIBLE,
    Outcome.INVALID_KNOB: _INFEASIBLE,
    Outcome.DIVERGED: _INFEASIBLE,
    Outcome.TIMED_OUT: _INFEASIBLE,
    Outcome.NO_METRIC: _INFEASIBLE,
    Outcome.PREEMPTED: _MACHINES_FAULT,
    Outcome.PLACEMENT: _MACHINES_FAULT,
    Outcome.ENVIRONMENT: _MACHINES_FAULT,
    Outcome.CANCELLED: Treatment(lesson=Lesson.NOTHING),
}
"""The one place that says so; docs/outcomes.md has it for people."""

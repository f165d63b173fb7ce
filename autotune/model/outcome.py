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
    """The machine was taken away, or somebody ended a rank."""
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
    def has_worked(self) -> bool:
        """Whether the candidate trained."""
        return self.treatment.lesson in (Lesson.SCORE, Lesson.LOST)

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
    advice: str = ""
    """What a person does when it has ended the study, as an instruction."""

    @property
    def gives_up(self) -> bool:
        """Whether the study goes on without a candidate whose retries all ended so."""
        return self.ends_study_after is not None and 0 < self.retries < self.ends_study_after - 1


def _infeasible(advice: str) -> Treatment:
    return Treatment(lesson=Lesson.INFEASIBLE, ends_study_after=10, advice=advice)


def _machines_fault(advice: str, ends_study_after: int = 3) -> Treatment:
    return Treatment(
        lesson=Lesson.NOTHING, retries=2, ends_study_after=ends_study_after, advice=advice
    )


TREATMENTS = {
    Outcome.COMPLETED: Treatment(lesson=Lesson.SCORE),
    Outcome.PRUNED: Treatment(lesson=Lesson.LOST),
    Outcome.OUT_OF_MEMORY: _infeasible(
        "take a smaller model or --global-batch, or a machine with more memory"
    ),
    Outcome.HUNG: _infeasible("see that the ranks can reach each other, and diagnose the log"),
    Outcome.CRASHED: _infeasible("see that the workload runs by itself, and diagnose the log"),
    Outcome.INVALID_KNOB: _infeasible("look at what is pinned, and at the variables that are set"),
    Outcome.DIVERGED: _infeasible("look at the learning rate, the data and the dtype"),
    Outcome.TIMED_OUT: _infeasible("take a smaller workload, or look at what slows the machine"),
    Outcome.NO_METRIC: _infeasible("see that nothing in the workload ends the process"),
    Outcome.PREEMPTED: _machines_fault(
        "find out who or what ends the processes: the scheduler, a guard of the memory, a person",
        # Three candidates: one alone may be what provokes a guard.
        ends_study_after=9,
    ),
    Outcome.PLACEMENT: _machines_fault("wait until machines are free"),
    Outcome.ENVIRONMENT: _machines_fault("mend the machine"),
    Outcome.CANCELLED: Treatment(lesson=Lesson.NOTHING),
}
"""The one place that says so; docs/outcomes.md has it for people."""

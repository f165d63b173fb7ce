"""When failures end a study: the same one so many times in a row, as model/outcome.py says."""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.model import Lesson, Outcome, Trial

_FURTHER = {
    Lesson.NOTHING: (Lesson.INFEASIBLE, Lesson.LOST, Lesson.SCORE),
    Lesson.INFEASIBLE: (Lesson.LOST, Lesson.SCORE),
}
"""What a trial teaches that got further than one that teaches so."""


@dataclass(frozen=True, kw_only=True)
class Streak:
    """The same failure again and again."""

    times: int
    last: Trial

    def __str__(self) -> str:
        """The failure, its latest cause and what to do, as a clause."""
        trial = self.last
        log = f" (its log: {trial.log_path})" if trial.log_path else ""
        return (
            f"{self.times} trials ended as {trial.outcome}, the last one, trial {trial.number}, "
            f"since {trial.reason or 'of nothing known'}{log}; {trial.outcome.treatment.advice}"
        )


def stuck(trials: Sequence[Trial]) -> Streak | None:
    """What keeps trials from running on this machine, if something does.

    `trials` are those of this invocation: a person may have mended the machine before it.
    """
    return _streak(trials, Lesson.NOTHING)


def hopeless(trials: Sequence[Trial]) -> Streak | None:
    """How the candidates fail, if so many did and none has worked.

    Once one has worked, failures are what a search is there to find out.
    """
    if any(trial.outcome.has_worked for trial in trials):
        return None
    return _streak(trials, Lesson.INFEASIBLE)


def _streak(trials: Sequence[Trial], lesson: Lesson) -> Streak | None:
    """The failure of the last trial, if it teaches `lesson` and came often enough in a row."""
    if not trials or trials[-1].outcome.treatment.lesson is not lesson:
        return None
    enough = trials[-1].outcome.treatment.ends_study_after
    times = _in_a_row(trials, trials[-1].outcome)
    return Streak(times=times, last=trials[-1]) if enough and times >= enough else None


def _in_a_row(trials: Sequence[Trial], outcome: Outcome) -> int:
    """How many of `trials` ended so since one got further."""
    count = 0
    for trial in reversed(trials):
        if trial.outcome.treatment.lesson in _FURTHER[outcome.treatment.lesson]:
            break
        count += trial.outcome is outcome
    return count

"""What a study tells whoever watches it."""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.loop.plan import Step
from autotune.model import Candidate, Trial, Window


@dataclass(frozen=True, kw_only=True)
class TrialStart:
    """A trial is about to be launched."""

    number: int
    """Of those that run at once, the one that ends first gets the lowest."""
    step: Step
    baseline: Candidate
    remaining_s: float | None
    """Of the time budget; None without one."""


class Observer:
    """Watches a study. Every method may be left as it is; one is called at a time."""

    def trial_started(self, start: TrialStart) -> None:
        """A trial is about to be launched."""

    def window_closed(self, step: Step, window: Window) -> None:
        """The trial of `step` has closed a window."""

    def trial_ended(self, trial: Trial) -> None:
        """A trial has ended and is stored, or put aside while the store fails."""

    def noticed(self, notice: str) -> None:
        """Something that a person should know."""


class Observers(Observer):
    """Several of them, told in turn."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def trial_started(self, start: TrialStart) -> None:
        for observer in self._observers:
            observer.trial_started(start)

    def window_closed(self, step: Step, window: Window) -> None:
        for observer in self._observers:
            observer.window_closed(step, window)

    def trial_ended(self, trial: Trial) -> None:
        for observer in self._observers:
            observer.trial_ended(trial)

    def noticed(self, notice: str) -> None:
        for observer in self._observers:
            observer.noticed(notice)

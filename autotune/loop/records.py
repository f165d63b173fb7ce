"""What a study reads and writes of its own records."""

from collections.abc import Sequence
from typing import Protocol

from autotune.model import BestConfiguration, Conclusion, Study, StudyStatus, Trial


class StudyRecords(Protocol):
    """A `Store`, or the part of one that a single run has."""

    def trials(self, run_id: str) -> Sequence[Trial]:
        """The study's trials by number."""

    def add_trial(self, trial: Trial) -> None:
        """Record an ended trial."""

    def save_best(self, best: BestConfiguration) -> None:
        """Save the study's answer."""

    def update_study(
        self,
        run_id: str,
        *,
        status: StudyStatus,
        conclusion: Conclusion | None = None,
        reason: str = "",
    ) -> Study:
        """Set the study's state."""

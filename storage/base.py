"""What every store promises."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from autotune.model import (
    BestConfiguration,
    Conclusion,
    Study,
    StudyStatus,
    Target,
    Trial,
)


class Store(ABC):
    """Studies, their trials and the best configurations: the only truth about a run.

    The contract, held by one conformance suite over every implementation:

    - What a method has returned from is durable: a process killed right after keeps it.
    - Records are immutable. A trial is added once and never changed or removed; of a study only
      status, conclusion, reason and updated_at change, through `update_study`.
    - Adding a record that is there with the same content is no error and changes nothing; with
      other content it is a StorageError. So a writer that doesn't know whether its last write
      arrived may write again.
    - What is read equals what was written, non-finite floats, time zones and odd characters
      included. Lists come in a stated order.
    - A store may be used from several threads and several processes at once.
    - Anything that goes wrong with the database is a StorageError that names the database without
      its password; content that can't be understood is one that names the record.
    """

    @abstractmethod
    def add_study(self, study: Study) -> None:
        """Record a new study under its run_id."""

    @abstractmethod
    def update_study(
        self,
        run_id: str,
        *,
        status: StudyStatus,
        conclusion: Conclusion | None = None,
        reason: str = "",
    ) -> Study:
        """Set a study's state, and updated_at to now. Raises StorageError for an unknown run_id."""

    @abstractmethod
    def study(self, run_id: str) -> Study | None:
        """The study with exactly this run_id."""

    @abstractmethod
    def studies(self) -> Sequence[Study]:
        """All studies, the oldest first."""

    @abstractmethod
    def add_trial(self, trial: Trial) -> None:
        """Record an ended trial of a known study. Raises StorageError for an unknown run_id."""

    @abstractmethod
    def trials(self, run_id: str) -> Sequence[Trial]:
        """A study's trials by number; none for an unknown run_id."""

    @abstractmethod
    def save_best(self, best: BestConfiguration) -> None:
        """Make `best` the answer for its target, in place of an earlier one.

        Not always: an answer of another run stays

        - if it is confirmed and `best` isn't;
        - if both are confirmed and the study of `best` looked at less, unless `best` is improved
          and was measured faster, or with other versions of the libraries.

        A study looked at less if it held a knob that the other one didn't hold at this value, by
        --set or by the user's environment, if a knob that the other one was to search wasn't open
        to it (--only, --space), or if its search launched less than half as many trials.
        A study that isn't in the store counts as one that looked at as much.
        """

    @abstractmethod
    def best(self, target: Target) -> BestConfiguration | None:
        """The answer for exactly this target."""

    @abstractmethod
    def bests(self) -> Sequence[BestConfiguration]:
        """All answers, by target."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections; the store isn't used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

"""What every store promises."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from autotune.errors import UnreadableError
from autotune.model import (
    BestConfiguration,
    Conclusion,
    Job,
    Study,
    StudyStatus,
    Target,
    Trial,
)
from autotune.storage.lease import Lease, Owner

OnUnreadable = Callable[[UnreadableError], None]
"""Told of each record that can't be understood while the others are read; as `os.walk` has it."""


def refuse(error: UnreadableError) -> None:
    """Have one record that can't be understood be an error of the whole."""
    raise error


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
      its password: an OutageError if the same may work later. Content that can't be understood is
      an UnreadableError that names the record, for each record by itself: `on_unreadable` decides
      whether the others are read.
    - A run's controller takes its lease and shows the lease's token as `holder` when it writes
      about the run. If the lease is another one's by then, that is a LeaseLostError and nothing is
      written. Without `holder` nothing is checked.
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
        holder: str = "",
    ) -> Study:
        """Set a study's state, and updated_at to now. Raises StorageError for an unknown run_id."""

    @abstractmethod
    def study(self, run_id: str) -> Study | None:
        """The study with exactly this run_id."""

    @abstractmethod
    def studies(self, on_unreadable: OnUnreadable = refuse) -> Sequence[Study]:
        """All studies, the oldest first."""

    @abstractmethod
    def add_trial(self, trial: Trial, *, holder: str = "") -> None:
        """Record an ended trial of a known study. Raises StorageError for an unknown run_id."""

    @abstractmethod
    def trials(self, run_id: str, on_unreadable: OnUnreadable = refuse) -> Sequence[Trial]:
        """A study's trials by number; none for an unknown run_id."""

    @abstractmethod
    def trial_counts(self) -> Mapping[str, int]:
        """How many trials each study has, by run_id, unreadable ones too; none has no entry."""

    @abstractmethod
    def save_best(self, best: BestConfiguration, *, holder: str = "") -> None:
        """Make `best` the answer for its target, in place of an earlier one.

        Not always: an answer of another run stays

        - if it is confirmed and `best` isn't;
        - if both are confirmed and the study of `best` looked at less, unless `best` is improved
          and was measured faster, or with other versions of the libraries.

        A study looked at less if it held a knob that the other one didn't hold at this value, by
        --set or by the user's environment, if a knob that the other one was to search wasn't open
        to it (--only, --space), or if its search launched less than half as many trials.
        A study that isn't in the store, or can't be read there, counts as one that looked at as
        much. An answer that can't be read is replaced.
        """

    @abstractmethod
    def best(self, target: Target) -> BestConfiguration | None:
        """The answer for exactly this target."""

    @abstractmethod
    def bests(self, on_unreadable: OnUnreadable = refuse) -> Sequence[BestConfiguration]:
        """All answers, by target."""

    @abstractmethod
    def take_lease(
        self, run_id: str, owner: Owner, seconds: float, *, instead_of: str = ""
    ) -> Lease:
        """Have `owner` work on a known run for `seconds`, and return the lease that now stands.

        It is another one's if that one's hasn't ended yet, unless its token is `instead_of`: who
        knows that a lease's owner is no more needn't wait for the end. Seconds pass by a clock of
        the store's, which no controller sets.
        """

    @abstractmethod
    def renew_lease(self, run_id: str, token: str, seconds: float) -> bool:
        """Have the lease end in `seconds` from now, also if it had ended: whether it is `token`'s.

        One that somebody else took, or that was let go of, is not.
        """

    @abstractmethod
    def release_lease(self, run_id: str, token: str) -> None:
        """Let go of the lease, if it is `token`'s."""

    @abstractmethod
    def leases(self, on_unreadable: OnUnreadable = refuse) -> Mapping[str, Lease]:
        """The leases by run_id, also those that have ended and nobody let go of."""

    @abstractmethod
    def add_job(self, job: Job) -> None:
        """Record a job that was submitted, by its name; its study needn't be there."""

    @abstractmethod
    def jobs(self, on_unreadable: OnUnreadable = refuse) -> Sequence[Job]:
        """All jobs, the oldest first."""

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

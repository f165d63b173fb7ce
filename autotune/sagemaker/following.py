"""Follows a job: its phases, and the run's records as they arrive in S3."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

from autotune.errors import CloudOutageError, OutageError
from autotune.model import BestConfiguration, Job
from autotune.sagemaker.account import Account
from autotune.sagemaker.jobs import JobState, describe
from autotune.storage import Store
from autotune.storage.changes import Position, Record, read_changes
from autotune.storage.objects import Objects
from autotune.storage.replay import apply_changes

POLL_S = 10.0
"""Between two looks. DescribeTrainingJob may be asked some times a second by a whole account."""


@dataclass(kw_only=True)
class Follower:
    """One job's, until it ends or `cancel` is set."""

    account: Account
    job: Job
    store: Store
    objects: Objects
    """Of the run."""
    say: Callable[[str], None]
    told: Callable[[Record], None]
    """Is given every record, also those that the store has."""
    cancel: Event
    read: Position = field(default_factory=Position)
    best: BestConfiguration | None = None
    """The run's own answer, which isn't always the one that the store keeps."""
    _phase: str = ""
    _is_away: bool = False

    def follow(self) -> JobState | None:
        """How it ended; None once `cancel` is set. An outage is said, and waited for."""
        while not self.cancel.is_set():
            state = self._look()
            if state is not None and state.has_ended:
                return state
            self.cancel.wait(POLL_S)
        return None

    def _look(self) -> JobState | None:
        try:
            # First the job: what it wrote before it ended is there then.
            state = describe(self.account, self.job.name)
            self._tell_phase(state)
            self.catch_up()
        except (CloudOutageError, OutageError) as error:
            if not self._is_away:
                self.say(f"{error}; the job goes on, trying again")
            self._is_away = True
            return None
        if self._is_away:
            self.say("AWS can be reached again")
            self._is_away = False
        return state

    def catch_up(self) -> None:
        """Store what has arrived. Raises StorageError, and OutageError."""
        for change in read_changes(self.objects, self.job.run_id, self.read):
            apply_changes(self.store, [change])
            self.read = self.read.after(change)
            if isinstance(change.record, BestConfiguration):
                self.best = change.record
            self.told(change.record)

    def _tell_phase(self, state: JobState) -> None:
        if state.phase and state.phase != self._phase:
            self._phase = state.phase
            message = f": {state.message}" if state.message else ""
            self.say(f"job {self.job.name}: {state.phase}{message}")

"""One run's records as its controller writes them: through outages, as long as it has the lease."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TypeVar

from autotune.errors import OutageError
from autotune.model import BestConfiguration, Conclusion, Study, StudyStatus, Trial
from autotune.storage.aside import read_aside, write_aside
from autotune.storage.base import Store
from autotune.storage.records import same_content

Written = TypeVar("Written")
PATIENCE_S = 60.0
"""How long the end of a run waits for a store that fails."""
RETRY_S = 1.0
ASIDE = "unstored.jsonl"
"""Name of the file in the run's folder with what the store couldn't take."""


class RunRecords:
    """The part of a `Store` that a study needs.

    While the store fails, trials are put aside, in `folder` or in memory if that can't be written
    either, and the study goes on. `flush`, which another thread calls, stores them in their order.
    What else is written waits for the store, for PATIENCE_S.
    """

    def __init__(
        self,
        store: Store,
        run_id: str,
        holder: str,
        *,
        folder: Path,
        say: Callable[[str], None],
        resume_command: str,
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._holder = holder
        self._file = folder / ASIDE
        self._say = say
        self._resume = resume_command
        self._pending: list[Trial] = []
        self._lock = Lock()
        """Of `_pending` and of its file."""
        self._flushing = Lock()
        self._told = False
        self._in_memory = False
        """It was said that the file can't be written."""

    @property
    def is_behind(self) -> bool:
        """Whether there is something that the store doesn't have yet."""
        return bool(self._pending)

    def trials(self, run_id: str) -> list[Trial]:
        """As `Store.trials`."""
        return list(self._store.trials(run_id))

    def add_trial(self, trial: Trial) -> None:
        """Record an ended trial; it is durable, or put aside."""
        if not self.is_behind:
            try:
                self._store.add_trial(trial, holder=self._holder)
            except OutageError as error:
                self._say(f"{error}; results are put aside until it works again")
            else:
                return
        with self._lock:
            self._pending.append(trial)
            self._write_file()

    def save_best(self, best: BestConfiguration) -> None:
        """As `Store.save_best`, once the store works."""
        self._when_it_works(lambda: self._store.save_best(best, holder=self._holder))

    def update_study(
        self,
        run_id: str,
        *,
        status: StudyStatus,
        conclusion: Conclusion | None = None,
        reason: str = "",
    ) -> Study:
        """As `Store.update_study`, once the store works."""
        return self._when_it_works(
            lambda: self._store.update_study(
                run_id,
                status=status,
                conclusion=conclusion,
                reason=reason,
                holder=self._holder,
            )
        )

    def flush(self) -> None:
        """Store what was put aside. Raises OutageError if the store still fails."""
        with self._flushing:
            stored = 0
            while self.is_behind:
                # Not under the lock: the study goes on while the database is waited for.
                self._store.add_trial(self._pending[0], holder=self._holder)
                stored += 1
                with self._lock:
                    del self._pending[0]
            if stored:
                with self._lock:
                    self._write_file()
                self._say(f"the store works again: {_results(stored)} stored")

    def close(self) -> None:
        """Say where to find what the store never took."""
        if self.is_behind and not self._told:
            self._say(f"{self._kept()}; store them with: {self._resume}")

    def recover(self) -> None:
        """Store what an earlier controller of this run couldn't."""
        kept = read_aside(self._file, self._run_id)
        if not kept:
            return
        there = {trial.number: trial for trial in self._store.trials(self._run_id)}
        for index, trial in enumerate(kept):
            stored = there.get(trial.number)
            if stored is None:
                self._store.add_trial(trial, holder=self._holder)
            elif not same_content(stored, trial):
                # What came after it was chosen by what isn't the run's past any more.
                self._supersede(kept[index:])
                return
        self._file.unlink()
        self._say(f"{_results(len(kept))} stored from {self._file}")

    def _supersede(self, trials: list[Trial]) -> None:
        path = self._file.with_name(f"superseded-{time.time_ns()}.jsonl")
        self._file.replace(path)
        self._say(
            f"{_results(len(trials))} not used: another process had trial {trials[0].number} and "
            f"what followed run again; they are kept in {path}"
        )

    def _when_it_works(self, write: Callable[[], Written]) -> Written:
        deadline, is_waiting = time.monotonic() + PATIENCE_S, False
        while True:
            try:
                self.flush()
                return write()
            except OutageError as error:
                if time.monotonic() > deadline:
                    self._told = True
                    kept = f"; {self._kept()}" if self.is_behind else ""
                    raise OutageError(
                        f"{error}{kept}", hint=f"once it works again: {self._resume}"
                    ) from error
                if not is_waiting:
                    is_waiting = True
                    self._say(f"{error}; waiting for it, at most {PATIENCE_S:.0f} s")
            time.sleep(RETRY_S)

    def _write_file(self) -> None:
        try:
            write_aside(self._file, self._pending)
        except OSError as error:
            if self._pending and not self._in_memory:
                self._in_memory = True
                self._say(f"{self._file}: {error.strerror}; results are kept in memory")

    def _kept(self) -> str:
        """Where the results are, the last attempt to write them included."""
        with self._lock:
            for folder in (self._file.parent, Path.cwd(), Path(tempfile.gettempdir())):
                path = folder / (
                    ASIDE if folder == self._file.parent else f"{self._run_id}-{ASIDE}"
                )
                try:
                    write_aside(path, self._pending)
                except OSError:
                    continue
                moved = "" if path == self._file else f" (move it to {self._file} first)"
                return f"{_results(len(self._pending))} kept in {path}{moved}"
        return f"{_results(len(self._pending))} lost: they can't be written anywhere"


def _results(count: int) -> str:
    return f"the result of {count} trial is" if count == 1 else f"the results of {count} trials are"

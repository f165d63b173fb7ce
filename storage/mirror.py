"""Sends the changes of one run to objects elsewhere, from a thread of its own."""

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread

from autotune.errors import LeaseLostError, OutageError, StorageError
from autotune.storage.base import Store
from autotune.storage.changes import Change, Record, read_changes
from autotune.storage.objects import Objects
from autotune.storage.replay import Known, fold, missing

RETRY_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Between attempts while the objects can't be written; the last one again and again."""
PATIENCE_S = 60.0
"""How long the end of a run waits for what isn't sent yet."""
_QUIET_S = 1.0
"""Of it, before a person is told."""


class Mirror:
    """Sends what `store` has of a run and the objects don't have; then what it is given, in order.

    Only the run's controller has one. The study never waits for it: while nothing can be sent,
    changes wait in memory, and whatever is lost there the store still has.
    """

    def __init__(
        self, store: Store, objects: Objects, run_id: str, say: Callable[[str], None]
    ) -> None:
        self._store = store
        self._objects = objects
        self._run_id = run_id
        self._say = say
        self._known = Known()
        self._queue: SimpleQueue[Record | None] = SimpleQueue()
        self._stop = Event()
        self._other: LeaseLostError | None = None
        # A daemon, so that it keeps no process from ending.
        self._thread = Thread(target=self._work, name=f"mirror {run_id}", daemon=True)
        self._thread.start()

    def send(self, record: Record) -> None:
        """Have this sent after what was given before."""
        self._queue.put(record)

    def check(self) -> None:
        """Raises LeaseLostError once another controller was found to write there."""
        if self._other is not None:
            raise self._other

    def close(self, patience_s: float = PATIENCE_S) -> None:
        """Have everything sent; says so if that can't be done in time. Ctrl-C ends the wait."""
        self._queue.put(None)
        try:
            self._wait(patience_s)
        except KeyboardInterrupt:
            # Nothing is lost that the store hasn't got, and the run's end is not to be skipped.
            self._stop.set()
        if self._thread.is_alive():
            self._stop.set()
            self._say(
                f"{self._objects.place}: not everything was sent there; the store has it, and "
                "resuming the run sends it"
            )
        elif self._other is not None:
            self._say(str(self._other))

    def _wait(self, patience_s: float) -> None:
        self._thread.join(min(_QUIET_S, patience_s))
        if self._thread.is_alive() and patience_s > _QUIET_S:
            self._say(
                f"{self._objects.place}: sending what isn't there yet, for {patience_s:.0f} s at "
                "most; Ctrl-C leaves it, and then the store alone has it until the run is resumed"
            )
            self._thread.join(patience_s - _QUIET_S)

    def _work(self) -> None:
        try:
            self._retried(self._catch_up)
            while (record := self._queue.get()) is not None:
                if not self._known.has(record):
                    self._retried(partial(self._put, record))
        except _Stopped:
            return
        except LeaseLostError as error:
            self._other = error
        except StorageError as error:
            self._say(f"{error}; nothing more is sent there")

    def _catch_up(self) -> None:
        self._known = fold(read_changes(self._objects, self._run_id))
        for record in missing(self._store, self._run_id, self._known):
            self._put(record)

    def _put(self, record: Record) -> None:
        self._known = put_next(self._objects, self._known, record)

    def _retried(self, action: Callable[[], None]) -> None:
        """Do it, again and again while it is an outage. Raises _Stopped."""
        for attempt in range(10**9):
            try:
                action()
            except OutageError as error:
                if not attempt:
                    self._say(f"{error}; changes wait until that works again")
            else:
                if attempt:
                    self._say(f"{self._objects.place}: works again")
                return
            if self._stop.wait(RETRY_S[min(attempt, len(RETRY_S) - 1)]):
                raise _Stopped


class _Stopped(Exception):
    """The mirror is given up."""


def put_next(objects: Objects, known: Known, record: Record) -> Known:
    """Add `record` to the objects, which hold what is `known`: what they hold then.

    Raises LeaseLostError if somebody else has added something meanwhile.
    """
    change = Change(number=known.last + 1, record=record)
    content = change.to_bytes()
    # After a lost answer the object that is there is our own.
    if not objects.put_new(change.name, content) and objects.get(change.name) != content:
        raise LeaseLostError(
            f"{objects.place}/{change.name}: another process works on run {record.run_id!r} and "
            "writes there, so this one writes no more",
            hint="follow the other one; what only this machine has of the run stays in its store",
        )
    return known.plus(record)


def send_missing(store: Store, objects: Objects, run_id: str) -> Known:
    """Have the objects hold all that `store` has of the run, at once: what they hold then.

    For what a controller that was killed couldn't send. Raises StorageError.
    """
    known = fold(read_changes(objects, run_id))
    for record in missing(store, run_id, known):
        known = put_next(objects, known, record)
    return known

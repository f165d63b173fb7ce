"""Tells tools of a study as it runs, each from a thread of its own: no study waits for a tool."""

import time
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from threading import Thread

from autotune.loop.observer import Observer
from autotune.loop.study import StudyEnd
from autotune.model import Study, Trial
from autotune.model.secrets import redacted
from autotune.tracking.base import Tracker
from autotune.tracking.facts import closing, entry, opening

STALLED_S = 30.0
"""How long the end of a study waits for a tool that gets nothing done."""
_Call = Callable[[Tracker], None]
_Warn = Callable[[str], None]


class Tracking(Observer):
    """Passes on what happens to each tool; one that fails is left alone, after one warning."""

    def __init__(self, study: Study, trackers: Mapping[str, Tracker], warn: _Warn) -> None:
        """`trackers` by the names that warnings use."""
        self._workers = [_Worker(name, tracker, warn) for name, tracker in trackers.items()]
        self._tell(lambda tracker: tracker.begin(opening(study)))

    def trial_ended(self, trial: Trial) -> None:
        self._tell(lambda tracker: tracker.add(entry(trial)))

    def study_ended(self, end: StudyEnd) -> None:
        """An invocation has come to its end."""
        self._tell(lambda tracker: tracker.end(closing(end)))

    def close(self, stalled_s: float = STALLED_S) -> None:
        """Have the tools write what they were told, unless they get nothing done any more."""
        for worker in self._workers:
            worker.close(stalled_s)

    def _tell(self, call: _Call) -> None:
        for worker in self._workers:
            worker.tell(call)


class _Worker:
    """One tool's thread."""

    def __init__(self, name: str, tracker: Tracker, warn: _Warn) -> None:
        self._name = name
        self._tracker = tracker
        self._warn = warn
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._moved = time.monotonic()
        # A daemon, so that no tool keeps the process from ending.
        self._thread = Thread(target=self._work, name=f"log to {name}", daemon=True)
        self._thread.start()

    def tell(self, call: _Call) -> None:
        self._calls.put(call)

    def close(self, stalled_s: float) -> None:
        self._calls.put(None)
        self._moved = time.monotonic()
        while self._thread.is_alive():
            left_s = self._moved + stalled_s - time.monotonic()
            if left_s <= 0:
                self._warn(f"{self._name}: gets nothing done; the rest isn't logged there")
                return
            self._thread.join(left_s)

    def _work(self) -> None:
        try:
            while (call := self._calls.get()) is not None:
                call(self._tracker)
                self._moved = time.monotonic()
            self._tracker.close()
        except Exception as error:  # whatever it is, it isn't the study's
            cause = redacted(str(error).strip().partition("\n")[0]) or type(error).__name__
            self._warn(f"{self._name}: {cause}; nothing more is logged there")

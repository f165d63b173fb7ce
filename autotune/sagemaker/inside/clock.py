"""How long a job may still run, so that its study ends by itself before SageMaker ends the job."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Event, Thread

from autotune.errors import StorageError
from autotune.sagemaker.inside.job import Job
from autotune.storage.objects import Objects

STARTED = "AUTOTUNE_SAGEMAKER_STARTED"
"""Where start.py says when it began, by the machine's monotonic clock."""
UNSEEN_S = 300.0
"""Before the container's first process: SageMaker's clock runs while it fetches the image."""
END_S = 180.0
"""Kept for the end: the last trial may be a minute late, and the answer, the report and what isn't
sent yet take a minute each at most."""
_OBJECT = "clock/used.json"
_LARGEST = 4096
_EVERY_S = 60.0


class JobClock:
    """One job's.

    When spot instances come back, the job's container starts again; so what it has used is kept in
    the job's objects, to the minute.
    """

    def __init__(
        self,
        job: Job,
        objects: Objects,
        environ: Mapping[str, str],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises StorageError if the objects can't be read."""
        self._objects = objects
        self._limit_s = job.limit_s
        self._now = now
        self._job = hashlib.sha256(job.token.encode()).hexdigest()
        self._began = float(environ.get(STARTED) or now()) - UNSEEN_S - self._used_before()

    @property
    def left_s(self) -> float | None:
        """Seconds for the study, at least 1; None without a limit."""
        if self._limit_s is None:
            return None
        return max(1.0, self._limit_s - (self._now() - self._began) - END_S)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within, what is used is written down every minute. No stop waits for it."""
        stop = Event()
        if self._limit_s is not None:
            Thread(target=self._work, args=(stop,), name="clock", daemon=True).start()
        try:
            yield
        finally:
            stop.set()

    def keep(self) -> None:
        """Write down what is used; what can't be written now is next time."""
        used = {"job": self._job, "used_s": round(self._now() - self._began)}
        with suppress(StorageError):
            self._objects.put(_OBJECT, json.dumps(used).encode())

    def _work(self, stop: Event) -> None:
        while not stop.wait(_EVERY_S):
            self.keep()

    def _used_before(self) -> float:
        """By earlier containers of this job; another job's time isn't its own."""
        if self._limit_s is None:
            return 0.0
        try:
            kept = json.loads(self._objects.get(_OBJECT, most=_LARGEST) or b"{}")
            return float(kept["used_s"]) if kept["job"] == self._job else 0.0
        except (ValueError, TypeError, KeyError, RecursionError):
            return 0.0

"""The two minutes that a job has which is to end, and who may use how many of them."""

import time
from collections.abc import Callable
from threading import Event, Thread

STUDY_S = 75.0
"""By then the study has ended its trial, saved its answer and sent its records, or is killed."""
SENT_S = 95.0
"""By then the results are in S3, or given up."""
DISMISSED_S = 105.0
"""By then a worker has heard of the head's end, or leaves without."""
RAY_S = 2.0
"""Between TERM and KILL for Ray's processes, at the very end. SageMaker kills after 120 s."""
_STEP_S = 0.2


class Notice(Event):
    """Set once the job is told to end; from then on its waits have an end, too."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._at: float | None = None

    def set(self) -> None:
        """Begin to count, if nothing has before: the first signal is the notice."""
        self._at = self._now() if self._at is None else self._at
        super().set()

    def left_s(self, until_s: float) -> float:
        """Seconds until so many after the notice, at least 0; without one there is no end."""
        return float("inf") if self._at is None else max(0.0, self._at + until_s - self._now())

    def bounded(self, action: Callable[[], None], until_s: float) -> bool:
        """Do it, in a thread that is left behind at `until_s` after the notice: whether it ended.

        Raises what `action` raises.
        """
        failed: list[Exception] = []

        def work() -> None:
            try:
                action()
            except Exception as error:
                failed.append(error)

        thread = Thread(target=work, daemon=True)
        thread.start()
        while thread.is_alive() and self.left_s(until_s) > 0:
            thread.join(min(_STEP_S, self.left_s(until_s)))
        if failed:
            raise failed[0]
        return not thread.is_alive()

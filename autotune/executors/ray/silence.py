"""Ends a node's agent when its driver has gone silent, and all that it runs with it."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

BEAT_S = 1.0
"""Between two signs of life of the driver."""
LIMIT_S = 7.0
"""A second later, the warden has ended what the ranks have left."""
_CHECK_S = 0.25


class Silence:
    """Ray tells of a driver's death, but not of one whose network or machine is gone.

    While the agent is at work for the driver, nothing is expected of it.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._heard_s = time.monotonic()
        self._at_work = 0
        Thread(target=self._watch, name="silence", daemon=True).start()

    @contextmanager
    def broken(self) -> Iterator[None]:
        """The driver has asked for something, which is done within."""
        self._at_work += 1
        try:
            yield
        finally:
            self._heard_s = time.monotonic()
            self._at_work -= 1

    def _watch(self) -> None:
        while self._at_work or time.monotonic() - self._heard_s < self._limit_s:
            time.sleep(_CHECK_S)
        sys.stderr.write(f"autotune: no word of the driver for {self._limit_s:.0f} s: this ends\n")
        sys.stderr.flush()
        # The warm parent and the warden see it, and end the ranks.
        os._exit(1)

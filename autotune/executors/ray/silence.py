"""Ends a node's agent when its driver or its node has gone, and all that it runs with it."""

import os
import sys
import time
from threading import Thread

from autotune.executors.pace import Patience

BEAT_S = 1.0
"""Between two signs of life of the driver."""
LIMIT_S = 8.0
"""While a trial runs, whose ranks are to be gone within 10 s of their driver's death."""
IDLE_LIMIT_S = 60.0
"""Between trials, when nothing runs: a driver may be importing on a busy machine."""
_CHECK_S = 0.25


class Silence:
    """Ray tells of a driver's death, but not of one whose network or machine is gone.

    And it takes Ray a quarter of a minute to end an agent whose node's own Ray process died.
    Seconds in which the agent itself stood still don't count.
    """

    def __init__(self) -> None:
        self.has_trial = False
        self._clock = Patience()
        self._heard_s = 0.0
        self._raylet = os.getppid()
        Thread(target=self._watch, name="silence", daemon=True).start()

    def broken(self) -> None:
        """The driver has given a sign of life."""
        self._heard_s = self._clock.now_s

    @property
    def _limit_s(self) -> float:
        return LIMIT_S if self.has_trial else IDLE_LIMIT_S

    def _watch(self) -> None:
        while not (why := self._why_end()):
            time.sleep(_CHECK_S)
        sys.stderr.write(f"autotune: {why}: this ends\n")
        sys.stderr.flush()
        # The warm parent and the warden see it, and end the ranks.
        os._exit(1)

    def _why_end(self) -> str:
        if os.getppid() != self._raylet:
            return "the process that runs this node for Ray is gone"
        if self._clock.turn(time.monotonic()) - self._heard_s < self._limit_s:
            return ""
        return f"no word of the driver for {self._limit_s:.0f} s"

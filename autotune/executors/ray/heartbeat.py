"""Whether agents answer: each is asked so every second, and does on a thread of its own."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import ray
from ray.exceptions import RayError

from autotune.executors.pace import Patience
from autotune.executors.ray.silence import BEAT_S

SILENT_S = 25.0
"""Without an answer, after which an agent counts as lost."""
_POLL_S = 0.05


class Heartbeat:
    """Tells agents that their driver is there, and hears from their answers that they are.

    Seconds in which the driver itself stood still don't count.
    """

    def __init__(self, agents: Sequence[Any]) -> None:
        self._clock = Patience()
        self._heard_s = dict.fromkeys(agents, 0.0)
        self._lost: set[Any] = set()
        self._ended = Event()
        Thread(target=self._run, name="ray-heartbeat", daemon=True).start()

    def close(self) -> None:
        self._ended.set()

    def have_answered(self) -> None:
        """All of them have just now, to something else."""
        self._heard_s = dict.fromkeys(self._heard_s, self._clock.now_s)

    def silent_s(self, agent: Any) -> float:
        """Since it last answered."""
        return self._clock.now_s - self._heard_s[agent]

    def is_silent(self, agent: Any) -> bool:
        """Whether nothing more is expected of it."""
        return agent in self._lost or self.silent_s(agent) > SILENT_S

    def give_up(self, agent: Any) -> None:
        """It is known to be gone."""
        self._lost.add(agent)

    def wait_for(
        self, calls: Mapping[Any, Any], limit_s: float, cancel: Event | None = None
    ) -> bool:
        """Whether `calls`, each to its agent, are done; those to silent agents aren't waited for.

        Nor is any for longer than `limit_s`, nor once `cancel` is set.
        """
        deadline, left = time.monotonic() + limit_s, list(calls)
        while any(not self.is_silent(calls[call]) for call in left):
            if time.monotonic() > deadline or (cancel is not None and cancel.is_set()):
                break
            _, left = ray.wait(left, num_returns=len(left), timeout=_POLL_S)
        return not left

    def _run(self) -> None:
        asked: dict[Any, Any] = {}
        while not self._ended.wait(BEAT_S):
            self._clock.turn(time.monotonic())
            for agent in self._heard_s:
                with suppress(RayError, ConnectionError):
                    self._ask(agent, asked)

    def _ask(self, agent: Any, asked: dict[Any, Any]) -> None:
        """Ask it again if it has answered."""
        if agent in asked:
            if not ray.wait([asked[agent]], timeout=0)[0]:
                return
            ray.get(asked.pop(agent))
            self._heard_s[agent] = self._clock.now_s
        asked[agent] = agent.beat.remote()

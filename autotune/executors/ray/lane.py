"""The nodes of one trial at a time, kept from trial to trial and replaced when one is lost."""

import time
from dataclasses import replace
from functools import partial
from threading import Event

from ray.exceptions import RayError

from autotune.errors import ExecutorError
from autotune.executors.base import Launch, LaunchEnd, OnWindow
from autotune.executors.one_trial import run_trial
from autotune.executors.ray.actor import AgentOptions, NodeFacts
from autotune.executors.ray.kind import NodeKind
from autotune.executors.ray.placed import Placed
from autotune.executors.ray.probe import NodeProbe
from autotune.executors.watch import Limits
from autotune.model import Lesson, Outcome


class Lane:
    """Takes its nodes when it is made; used by one thread at a time."""

    def __init__(
        self, kind: NodeKind, nodes: int, options: AgentOptions, limit_s: float, limits: Limits
    ) -> None:
        """The nodes have to be free within `limit_s`. Raises ExecutorError."""
        self._kind = kind
        self._nodes = nodes
        self._options = options
        self._limits = limits
        self.failures = 0
        """Trials in a row that said nothing of their candidates."""
        self._memory_before: dict[str, tuple[int, ...]] = {}
        """What every node that this has had said of its GPUs at first, by address."""
        self._team: Placed | None = self._placed(limit_s, Event())

    @property
    def facts(self) -> tuple[NodeFacts, ...]:
        """What the nodes said of themselves, that of rank 0 first; none while there are none."""
        return self._team.facts if self._team else ()

    def take(self, limit_s: float, cancel: Event) -> Placed:
        """The nodes, taken anew within `limit_s` if they were lost. Raises ExecutorError."""
        if self._team is None:
            self._team = self._placed(limit_s, cancel)
        return self._team

    def probe(self) -> dict[str, NodeProbe]:
        """By node what its devices and its links take; nothing if the nodes were lost."""
        nodes = self._team.nodes if self._team else None
        found = nodes.probe() if nodes else {}
        if nodes and nodes.loss is not None:
            self.release()
        return found

    def run(
        self, launch: Launch, on_window: OnWindow, cancel: Event, *, replace_s: float
    ) -> LaunchEnd:
        """As `Executor.run`; nodes that were lost are replaced within `replace_s`."""
        if launch.wait_limit_s is not None:
            replace_s = min(replace_s, launch.wait_limit_s)
        began = time.monotonic()
        try:
            nodes = self.take(replace_s, cancel).nodes
        except (ExecutorError, RayError, ConnectionError) as error:
            waited_s = time.monotonic() - began
            end = LaunchEnd(outcome=Outcome.PLACEMENT, reason=str(error), prepared_s=waited_s)
        else:
            taken_s = time.monotonic() - began
            get_ready = partial(nodes.get_ready, launch, cancel)
            start = partial(nodes.start, launch, cancel)
            end = run_trial(nodes, get_ready, start, launch, self._limits, on_window, cancel)
            end = replace(end, prepared_s=taken_s + end.prepared_s)
            if nodes.loss is not None:
                self.release()
        says_nothing = end.outcome.treatment.lesson is Lesson.NOTHING and not cancel.is_set()
        self.failures = self.failures + 1 if says_nothing else 0
        return end

    def release(self) -> None:
        """Give the nodes back until the next trial."""
        team, self._team = self._team, None
        if team is not None:
            team.close()

    def _placed(self, limit_s: float, cancel: Event) -> Placed:
        options = replace(self._options, memory_before=dict(self._memory_before))
        team = Placed(self._kind, self._nodes, options, limit_s, cancel)
        for facts in team.facts:
            self._memory_before.setdefault(facts.address, facts.memory_used)
        return team

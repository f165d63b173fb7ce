"""The Ray executor: every node of a trial is a node of a Ray cluster, with an agent on it."""

import os
from contextlib import ExitStack
from dataclasses import replace
from threading import Event, Lock
from typing import Self

from autotune.errors import ExecutorError
from autotune.executors.base import Executor, Launch, LaunchEnd, OnWindow, check_unchanged
from autotune.executors.rank_environment import carried_environment
from autotune.executors.ray.actor import AgentOptions, NodeFacts
from autotune.executors.ray.choice import Misfit, groups_taken, lanes_of
from autotune.executors.ray.cluster import AUTO, connected, find_nodes
from autotune.executors.ray.lane import Lane
from autotune.executors.ray.placed import PLACE_LIMIT_S, Placed, check_alike
from autotune.executors.ray.preflight import all_reduce, at_best, findings
from autotune.executors.ray.probe import NodeProbe
from autotune.executors.watch import Limits
from autotune.model import DeviceKind, Machine, Outcome, UserWorkload

REPLACE_LIMIT_S = 120.0
"""For another node in the place of one that was lost: a cluster that grows needs minutes."""
MORE_LIMIT_S = 5.0
"""For a further lane's nodes to be free, where as many are taken as there are."""
MOST_FAILURES = 2
"""In a row on one lane, after which a study goes on with the others."""


class RayExecutor(Executor):
    """Launches trials on the nodes of a cluster: on each lane one at a time, from its own thread.

    The nodes and their agents are kept from trial to trial, and replaced when one of them is lost.
    A lane whose nodes can't be replaced, or whose trials keep failing, is given up if there are
    others.
    """

    def __init__(
        self,
        nodes: int,
        *,
        address: str = AUTO,
        options: AgentOptions | None = None,
        limits: Limits | None = None,
        workload: UserWorkload | None = None,
        misfit: Misfit = lambda _: "",
        replace_limit_s: float = REPLACE_LIMIT_S,
        at_once: int | None = 1,
    ) -> None:
        """Connects, and takes the nodes of `at_once` lanes; None: as many as there is room for.

        Of `limits`, the time limit is each launch's own. Nodes with a `misfit` are left alone.
        Raises UserError for a cluster with too few nodes that are alike, and ExecutorError for one
        that doesn't answer.
        """
        self._nodes = nodes
        self._limits = limits or Limits()
        self._replace_limit_s = replace_limit_s
        options = options or AgentOptions()
        self._options = replace(
            options,
            variables={**carried_environment(os.environ), **options.variables},
            workload=workload,
        )
        self._lock = Lock()
        self._lanes: list[Lane] = []
        self._free: list[Lane] = []
        self._stack = ExitStack()
        with ExitStack() as stack:
            folder = workload.folder if workload else ""
            self.dashboard = stack.enter_context(connected(address, folder=folder))
            choice = find_nodes(nodes, misfit)
            self._kind, self.left_out = choice.kind, choice.notices
            room = lanes_of(choice.count, nodes, at_once)
            stack.callback(self.release)
            self._fill(room, must=at_once is not None)
            taken = groups_taken(len(self._lanes), room, nodes, choice.count)
            self.groups = "" if at_once is not None else taken
            """How many there are and why, where as many as fit were asked for."""
            check_alike(self.facts)
            self._machine = self.facts[0].machine
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        self._stack.close()

    @property
    def at_once(self) -> int:
        return max(1, len(self._lanes))

    def narrow(self) -> None:
        with self._lock:
            others, self._lanes = self._lanes[1:], self._lanes[:1]
            self._free = list(self._lanes)
        for lane in others:
            lane.release()

    def machine(self) -> Machine:
        return self._machine

    @property
    def facts(self) -> tuple[NodeFacts, ...]:
        """What the nodes say of themselves, lane by lane, that of rank 0 first.

        Called between trials. Raises ExecutorError.
        """
        return tuple(fact for lane in self._lanes for fact in self._taken(lane).facts)

    def preflight(self) -> list[str]:
        """How fast the nodes' links are, and which nodes are slower than the others.

        In sentences; takes some seconds.
        """
        if self._nodes * len(self._lanes) == 1:
            return []
        probes = self._probe()
        if findings(probes):  # a busy moment doesn't come twice
            again = self._probe()
            probes = [at_best(*both) for both in zip(probes, again, strict=True)]
        return [*all_reduce(probes), *findings(probes)]

    def named(self, machine: Machine) -> None:
        """`machine` is what the nodes are, under the name that results are stored under."""
        self._machine = machine

    def run(self, launch: Launch, on_window: OnWindow, cancel: Event) -> LaunchEnd:
        self._check(launch)
        check_unchanged(self._options.workload)
        if cancel.is_set():
            reason = "ended because the run was stopped"
            return LaunchEnd(outcome=Outcome.CANCELLED, reason=reason)
        with self._lock:
            lane = self._free.pop(0)
            # With others there is no need to wait for a cluster to grow.
            most_s = self._replace_limit_s
            replace_s = most_s if len(self._lanes) == 1 else min(most_s, PLACE_LIMIT_S)
        try:
            end = lane.run(launch, on_window, cancel, replace_s=replace_s)
        except BaseException:
            self._free.insert(0, lane)
            raise
        return self._settle(lane, end)

    def release(self) -> None:
        """Give all nodes back until the next trial."""
        for lane in self._lanes:
            lane.release()

    def _fill(self, count: int, *, must: bool) -> None:
        """Take the nodes of `count` lanes; of fewer, but one, unless it `must` be all."""
        for number in range(count):
            limit_s = PLACE_LIMIT_S if must or number == 0 else MORE_LIMIT_S
            try:
                lane = Lane(self._kind, self._nodes, self._options, limit_s, self._limits)
            except ExecutorError:
                if must or number == 0:
                    raise
                break
            self._lanes.append(lane)
        self._free = list(self._lanes)

    def _settle(self, lane: Lane, end: LaunchEnd) -> LaunchEnd:
        """Have `lane` be free again, or give it up."""
        with self._lock:
            is_lost = end.outcome is Outcome.PLACEMENT or lane.failures >= MOST_FAILURES
            if not is_lost or len(self._lanes) == 1:
                self._free = [one for one in self._lanes if one is lane or one in self._free]
                return end
            self._lanes.remove(lane)
            left = len(self._lanes)
        lane.release()
        return replace(end, reason=f"{end.reason}; {_goes_on(left)}")

    def _taken(self, lane: Lane) -> Placed:
        return lane.take(self._replace_limit_s, Event())

    def _probe(self) -> list[dict[str, NodeProbe]]:
        return [lane.probe() for lane in self._lanes]

    def _check(self, launch: Launch) -> None:
        if launch.nodes != self._nodes:
            raise ExecutorError(
                f"{self._nodes} nodes were taken, {launch.nodes} were asked for",
                hint=f"--nodes {launch.nodes}",
            )
        gpus = len(self._machine.gpus)
        if launch.spec.device is DeviceKind.CUDA and launch.ranks_per_node > gpus:
            raise ExecutorError(
                f"{launch.ranks_per_node} ranks need a GPU each, these nodes are: "
                f"{self._machine.describe()}"
            )


def _goes_on(lanes: int) -> str:
    return f"the study goes on with {lanes} group{'s' * (lanes != 1)} of nodes"

"""The Ray executor: every node of a trial is a node of a Ray cluster, with an agent on it."""

import os
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from typing import Any, Self

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from autotune.errors import ExecutorError
from autotune.executors.base import Executor, Launch, LaunchEnd, OnWindow
from autotune.executors.one_trial import run_trial
from autotune.executors.rank_environment import carried_environment
from autotune.executors.ray.actor import AgentActor, AgentOptions, NodeFacts, own_versions
from autotune.executors.ray.cluster import (
    AUTO,
    NodeKind,
    connected,
    find_kind,
    free_now,
    living_nodes,
)
from autotune.executors.ray.preflight import at_best, slow_nodes
from autotune.executors.ray.remote_nodes import CALL_LIMIT_S, RemoteNodes
from autotune.executors.ray.silence import BEAT_S
from autotune.executors.watch import Limits
from autotune.model import DeviceKind, Machine, Outcome, UserWorkload

PLACE_LIMIT_S = 30.0
"""For nodes to be free, and for their agents to answer."""
REPLACE_LIMIT_S = 120.0
"""For another node in the place of one that was lost: a cluster that grows needs minutes."""
_POLL_S = 1


class RayExecutor(Executor):
    """Launches trials on the nodes of a cluster. One trial at a time, from one thread.

    The nodes and their agents are kept from trial to trial, and replaced when one of them is lost.
    """

    def __init__(
        self,
        nodes: int,
        *,
        address: str = AUTO,
        options: AgentOptions | None = None,
        limits: Limits | None = None,
        workload: UserWorkload | None = None,
        replace_limit_s: float = REPLACE_LIMIT_S,
    ) -> None:
        """Connects, and takes its nodes. Of `limits`, the time limit is each launch's own.

        Raises UserError for a cluster that is too small, and ExecutorError for one that doesn't
        answer, or whose nodes differ.
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
        self._team: _Placed | None = None
        self._stack = ExitStack()
        with ExitStack() as stack:
            folder = workload.folder if workload else ""
            self.dashboard = stack.enter_context(connected(address, folder=folder))
            self._kind = find_kind(nodes)
            stack.callback(self.release)
            self._team = _Placed(self._kind, nodes, self._options, PLACE_LIMIT_S, Event())
            self._machine = self.facts[0].machine
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        self._stack.close()

    def machine(self) -> Machine:
        return self._machine

    @property
    def facts(self) -> tuple[NodeFacts, ...]:
        """What the nodes say of themselves, that of rank 0 first. Raises ExecutorError."""
        return self._placed(Event()).facts

    def preflight(self) -> list[str]:
        """A sentence for each node that is much slower than the others; takes some seconds."""
        if self._nodes == 1:
            return []
        nodes = self._placed(Event()).nodes
        seconds = nodes.probe()
        if found := slow_nodes(seconds):  # a busy moment doesn't come twice
            found = slow_nodes(at_best(seconds, nodes.probe()))
        if nodes.loss is not None:
            self.release()
        return found

    def named(self, machine: Machine) -> None:
        """`machine` is what the nodes are, under the name that results are stored under."""
        self._machine = machine

    def run(self, launch: Launch, on_window: OnWindow, cancel: Event) -> LaunchEnd:
        self._check(launch)
        if cancel.is_set():
            reason = "ended because the run was stopped"
            return LaunchEnd(outcome=Outcome.CANCELLED, reason=reason)
        try:
            nodes = self._placed(cancel).nodes
        except (ExecutorError, RayError, ConnectionError) as error:
            return LaunchEnd(outcome=Outcome.PLACEMENT, reason=str(error))
        start = partial(nodes.start, launch, cancel)
        end = run_trial(nodes, start, launch, self._limits, on_window, cancel)
        if nodes.loss is not None:
            self.release()
        return end

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

    def _placed(self, cancel: Event) -> "_Placed":
        """The nodes, taken anew if the last ones were lost. Raises ExecutorError."""
        if self._team is None:
            limit_s = self._replace_limit_s
            self._team = _Placed(self._kind, self._nodes, self._options, limit_s, cancel)
        return self._team

    def release(self) -> None:
        """Give the nodes back until the next trial."""
        team, self._team = self._team, None
        if team is not None:
            team.close()


class _Placed:
    """Nodes that are reserved, with an agent on each."""

    def __init__(
        self,
        kind: NodeKind,
        count: int,
        options: AgentOptions,
        limit_s: float,
        cancel: Event,
    ) -> None:
        self._beating = Event()
        self._group = _reserve(kind, count, limit_s, cancel)
        self._agents: list[Any] = []
        try:
            self._agents = [
                _start_agent(self._group, index, kind, options) for index in range(count)
            ]
            facts: list[NodeFacts] = ray.get(
                [agent.facts.remote() for agent in self._agents],
                timeout=PLACE_LIMIT_S + CALL_LIMIT_S,
            )
            _check_alike(facts)
        except BaseException as error:
            self.close()
            if isinstance(error, RayError):
                raise ExecutorError(f"an agent can't be started: {_short(error)}") from None
            raise
        order = sorted(range(count), key=lambda node: facts[node].address)
        self.facts = tuple(facts[node] for node in order)
        self.nodes = RemoteNodes([self._agents[node] for node in order], self.facts)
        Thread(target=self._beat, name="ray-heartbeat", daemon=True).start()

    def close(self) -> None:
        """End the agents, and give the nodes back."""
        self._beating.set()
        with suppress(RayError, ConnectionError):
            refs = [agent.close.remote() for agent in self._agents]
            if refs:
                ray.wait(refs, num_returns=len(refs), timeout=CALL_LIMIT_S)
        for agent in self._agents:
            with suppress(RayError, ConnectionError):
                ray.kill(agent)
        with suppress(RayError, ConnectionError):
            remove_placement_group(self._group)

    def _beat(self) -> None:
        """Tell the agents again and again that somebody is there."""
        last: dict[int, Any] = {}
        while not self._beating.wait(BEAT_S):
            with suppress(RayError, ConnectionError):
                for number, agent in enumerate(self._agents):
                    if number not in last or ray.wait([last[number]], timeout=0)[0]:
                        last[number] = agent.beat.remote()


def _reserve(kind: NodeKind, count: int, limit_s: float, cancel: Event) -> PlacementGroup:
    """Whole nodes, as soon as they are free. Raises ExecutorError if they aren't in time."""
    group = placement_group([kind.bundle] * count, strategy="STRICT_SPREAD")
    deadline = time.monotonic() + limit_s
    while not group.wait(timeout_seconds=_POLL_S):
        if cancel.is_set() or time.monotonic() > deadline:
            remove_placement_group(group)
            raise ExecutorError(
                f"{count} nodes with {kind} each were not free within {limit_s:.0f} s: the cluster "
                f"has {living_nodes()}, and free are {free_now()}",
                hint="wait until they are, or start more nodes (ray status)",
            )
    return group


def _start_agent(group: PlacementGroup, index: int, kind: NodeKind, options: AgentOptions) -> Any:
    place = PlacementGroupSchedulingStrategy(
        placement_group=group, placement_group_bundle_index=index
    )
    actor = ray.remote(AgentActor).options(
        num_cpus=kind.cpus, num_gpus=kind.gpus, scheduling_strategy=place, max_restarts=0
    )
    return actor.remote(options)


def _check_alike(facts: list[NodeFacts]) -> None:
    """Raise ExecutorError if the nodes, or the software on them, differ."""
    first = facts[0]
    here = own_versions()
    for node in facts:
        if node.versions != here:
            raise ExecutorError(
                f"{node.host} ({node.address}) has {_some(node.versions)}, and this is "
                f"{_some(here)}",
                hint="give the cluster's image and this environment the same versions",
            )
        if node.machine.instance != first.machine.instance:
            raise ExecutorError(
                f"the nodes differ: {first.host} is {first.machine.describe()}; {node.host} is "
                f"{node.machine.describe()}",
                hint="results of different machines can't be compared; take nodes of one kind",
            )


def _some(versions: Any) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _short(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__

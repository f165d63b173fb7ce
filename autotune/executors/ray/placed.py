"""Whole nodes of a cluster that are reserved, with an agent on each."""

import time
from collections.abc import Sequence
from contextlib import suppress
from threading import Event
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from autotune.errors import ExecutorError
from autotune.executors.ray.actor import BEATS, AgentActor, AgentOptions, NodeFacts, own_versions
from autotune.executors.ray.cluster import free_now, living_nodes
from autotune.executors.ray.heartbeat import Heartbeat
from autotune.executors.ray.kind import NodeKind
from autotune.executors.ray.remote_nodes import CALL_LIMIT_S, RemoteNodes

PLACE_LIMIT_S = 30.0
"""For nodes to be free, and for their agents to answer."""
_POLL_S = 1


class Placed:
    """Nodes that are reserved, with an agent on each."""

    def __init__(
        self,
        kind: NodeKind,
        count: int,
        options: AgentOptions,
        limit_s: float,
        cancel: Event,
    ) -> None:
        self._heartbeat: Heartbeat | None = None
        self._group = _reserve(kind, count, limit_s, cancel)
        self.agents: list[Any] = []
        try:
            self.agents = [
                _start_agent(self._group, index, kind, options) for index in range(count)
            ]
            self._heartbeat = Heartbeat(self.agents)
            facts: list[NodeFacts] = ray.get(
                [agent.facts.remote() for agent in self.agents],
                timeout=PLACE_LIMIT_S + CALL_LIMIT_S,
            )
            self._heartbeat.have_answered()
            check_alike(facts)
        except BaseException as error:
            self.close()
            if isinstance(error, RayError):
                raise ExecutorError(f"an agent can't be started: {_short(error)}") from None
            raise
        order = sorted(range(count), key=lambda node: facts[node].address)
        self.facts = tuple(facts[node] for node in order)
        agents = [self.agents[node] for node in order]
        self.nodes = RemoteNodes(agents, self.facts, self._heartbeat)

    def close(self) -> None:
        """End the agents, and give the nodes back."""
        if self._heartbeat is not None:
            with suppress(RayError, ConnectionError):
                calls = {agent.close.remote(): agent for agent in self.agents}
                self._heartbeat.wait_for(calls, CALL_LIMIT_S)
            self._heartbeat.close()
        for agent in self.agents:
            with suppress(RayError, ConnectionError):
                ray.kill(agent)
        with suppress(RayError, ConnectionError):
            remove_placement_group(self._group)


def _reserve(kind: NodeKind, count: int, limit_s: float, cancel: Event) -> PlacementGroup:
    """Whole nodes, as soon as they are free. Raises ExecutorError if they aren't in time."""
    labels = [kind.labels] * count if kind.labels else None
    group = placement_group(
        [kind.bundle] * count, strategy="STRICT_SPREAD", bundle_label_selector=labels
    )
    deadline = time.monotonic() + limit_s
    while not group.wait(timeout_seconds=_POLL_S):
        if cancel.is_set() or time.monotonic() > deadline:
            remove_placement_group(group)
            raise ExecutorError(
                f"{_nodes(count)} with {kind} each were not free within {limit_s:.0f} s: the "
                f"cluster has {living_nodes()}, and free are {free_now()}",
                hint="wait until they are, or start more nodes (ray status)",
            )
    return group


def _start_agent(group: PlacementGroup, index: int, kind: NodeKind, options: AgentOptions) -> Any:
    place = PlacementGroupSchedulingStrategy(
        placement_group=group, placement_group_bundle_index=index
    )
    actor = ray.remote(concurrency_groups={BEATS: 1})(AgentActor).options(
        num_cpus=kind.cpus, num_gpus=kind.gpus, scheduling_strategy=place, max_restarts=0
    )
    return actor.remote(options)


def check_alike(facts: Sequence[NodeFacts]) -> None:
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


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"


def _some(versions: Any) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _short(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__

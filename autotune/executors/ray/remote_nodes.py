"""The nodes of a trial as their agents on a Ray cluster tell of them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import ray

from autotune.executors.base import Launch
from autotune.executors.channel import Fault
from autotune.executors.launch_facts import NodeLoss, NodesEnd, RankExit
from autotune.executors.nodes import Exited, Lost, NodeEvent, StartError
from autotune.executors.order import Order
from autotune.executors.ray.actor import NodeFacts
from autotune.executors.ray.heartbeat import Heartbeat
from autotune.executors.ray.loss import UNREACHABLE, is_there, lost, silent
from autotune.executors.ray.probe import LIMIT_S, Meeting, NodeProbe
from autotune.executors.standing import Standing
from autotune.model import Outcome
from autotune.model.protocol import Answer

EXCHANGE_S = 0.25
"""For which an agent waits for something to tell, before it is asked again."""
START_LIMIT_S = 150.0
"""More than a warm parent may take to import from a slow disk."""
CALL_LIMIT_S = 30.0
"""For everything else, of which ending processes that resist takes the longest."""


class RemoteNodes:
    """Implements `Nodes` with one agent for each node, those of rank 0 first."""

    def __init__(
        self, agents: Sequence[Any], facts: Sequence[NodeFacts], heartbeat: Heartbeat
    ) -> None:
        self._agents = tuple(agents)
        self._heartbeat = heartbeat
        self._facts = tuple(facts)
        self.loss: NodeLoss | None = None
        """Of the first node that went away; after it, other agents are needed."""
        self._launch: Launch | None = None
        self._is_open = False
        self._exchanges: dict[Any, int] = {}
        self._answers: list[tuple[int, Answer]] = []
        self._running: list[set[int]] = []
        """Ranks of each node that haven't exited."""

    def get_ready(self, launch: Launch, cancel: Event) -> None:
        """Have everything be there but the trial's own. Raises StartError."""
        orders = self._orders(launch)
        calls = zip(self._agents, orders, strict=True)
        self._succeed([agent.get_ready.remote(order) for agent, order in calls], cancel)

    def start(self, launch: Launch, cancel: Event) -> None:
        """Start the ranks. Raises StartError."""
        self._launch = launch
        self._exchanges, self._answers = {}, []
        per_node = launch.ranks_per_node
        self._running = [
            set(range(node * per_node, (node + 1) * per_node)) for node in range(launch.nodes)
        ]
        self._is_open = True
        (address, port), *_ = self._all([self._agents[0].listen.remote()], CALL_LIMIT_S, cancel)
        calls = zip(self._agents, self._orders(launch, address, port), strict=True)
        self._succeed([agent.start.remote(order) for agent, order in calls], cancel)

    def wait(self, timeout_s: float) -> list[NodeEvent]:
        if self.loss is not None:
            return [Lost(loss=self.loss)]
        self._ask(timeout_s)
        refs = list(self._exchanges)
        if not refs:
            return []
        ray.wait(refs, num_returns=1, timeout=timeout_s)
        # Those of other nodes may be there as well.
        ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
        events: list[NodeEvent] = []
        for ref in ready:
            node = self._exchanges.pop(ref)
            events += self._take(node, ref)
        return [*events, *self._unheard()]

    def send(self, rank: int, answer: Answer) -> Fault | None:
        self._answers.append((rank, answer))
        return None

    def inspect(self) -> tuple[Standing, ...]:
        found, _ = self._each([agent.inspect.remote() for agent in self._agents])
        return tuple(standing for standings in found.values() for standing in standings)

    def end(self, *, may_stay: bool) -> NodesEnd:
        del may_stay  # ranks on several nodes always are the trial's own
        found, loss = self._each([agent.end.remote() for agent in self._agents])
        exits: list[RankExit] = []
        for node in range(len(self._agents)):
            exits += self._exits(node, found.get(node))
        return NodesEnd(
            ranks=tuple(exits),
            survivors=tuple(pid for one in found.values() for pid in one.survivors),
            oom_kills=sum(one.oom_kills for one in found.values()),
            kernel_log="\n".join(filter(None, (one.kernel_log for one in found.values()))),
            loss=loss,
        )

    def finish(self, *, well: bool) -> str:
        self._is_open = False
        found, _ = self._each([agent.finish.remote(well=well) for agent in self._agents])
        clauses = [f"{self.name(node)}: {left}" for node, left in found.items() if left]
        return "; ".join(clauses)

    def abandon(self) -> None:
        if self._is_open:
            self._is_open = False
            self._each([agent.abandon.remote() for agent in self._agents])

    def probe(self) -> dict[str, NodeProbe]:
        """By node what its devices and its links take, all nodes at once; some may be missing."""
        opened, _ = self._each([self._agents[0].open_probe.remote()])
        if not opened:
            return {}
        address, port = opened[0]
        nodes = len(self._agents)
        meetings = [
            Meeting(node=node, nodes=nodes, address=address, port=port) for node in range(nodes)
        ]
        calls = zip(self._agents, meetings, strict=True)
        refs = [agent.probe.remote(meeting) for agent, meeting in calls]
        found, _ = self._each(refs, LIMIT_S + CALL_LIMIT_S)
        return {self.name(node): probe for node, probe in found.items()}

    def name(self, node: int) -> str:
        """Of a node, for people."""
        facts = self._facts[node]
        same = [one.address for one in self._facts].count(facts.address) > 1
        return f"{facts.host} ({facts.address}" + (f", node {node})" if same else ")")

    def _orders(self, launch: Launch, address: str = "", port: int = 0) -> list[Order]:
        return [
            Order(
                spec=launch.spec,
                ranks_per_node=launch.ranks_per_node,
                directory=launch.directory,
                node=node,
                nodes=launch.nodes,
                address=address,
                port=port,
            )
            for node in range(launch.nodes)
        ]

    def _succeed(self, refs: list[Any], cancel: Event) -> None:
        """Wait for calls that return None, or the StartError that is raised then."""
        for failed in filter(None, self._all(refs, START_LIMIT_S, cancel)):
            raise failed

    def _ask(self, timeout_s: float) -> None:
        """Have every agent that still has ranks tell what happens there."""
        busy = set(self._exchanges.values())
        for node, agent in enumerate(self._agents):
            if node in busy or not self._running[node]:
                continue
            ranks = self._running[node]
            mine = [one for one in self._answers if one[0] in ranks]
            self._answers = [one for one in self._answers if one[0] not in ranks]
            patience_s = EXCHANGE_S if timeout_s else 0.0
            self._exchanges[agent.exchange.remote(mine, patience_s)] = node

    def _take(self, node: int, ref: Any) -> Sequence[NodeEvent]:
        try:
            events: Sequence[NodeEvent] = ray.get(ref)
        except UNREACHABLE as error:
            return [Lost(loss=self._lose(node, error))]
        self._running[node] -= {event.rank for event in events if isinstance(event, Exited)}
        return events

    def _unheard(self) -> Sequence[NodeEvent]:
        """The loss of a node that has ranks, and whose agent has gone silent."""
        for node in self._exchanges.values():
            if self._heartbeat.is_silent(self._agents[node]):
                return [Lost(loss=self._lose(node, TimeoutError()))]
        return []

    def _exits(self, node: int, found: NodesEnd | None) -> list[RankExit]:
        """Of a node's ranks, with their logs on this machine."""
        if self._launch is None:
            return []
        per_node = self._launch.ranks_per_node
        if found is None:
            reason = f"{self.name(node)} is gone"
            ranks = range(node * per_node, (node + 1) * per_node)
            return [RankExit(rank=rank, exit_status=None, lost=reason) for rank in ranks]
        return [_with_log_here(one, self._launch.directory) for one in found.ranks]

    def _all(self, refs: list[Any], limit_s: float, cancel: Event) -> list[Any]:
        """The results, unless one can't be had or `cancel` is set: then StartError is raised."""
        are_done = self._heartbeat.wait_for(self._with_agents(refs), limit_s, cancel)
        if cancel.is_set() and not are_done:
            self.loss = NodeLoss(
                outcome=Outcome.CANCELLED, reason="ended because the run was stopped"
            )
            raise StartError(self.loss.reason, self.loss.outcome)
        for node, ref in enumerate(refs):
            try:
                ray.get(ref, timeout=0)
            except UNREACHABLE as error:
                loss = self._lose(node, error)
                raise StartError(loss.reason, loss.outcome) from None
        return [ray.get(ref) for ref in refs]

    def _each(
        self, refs: list[Any], limit_s: float = CALL_LIMIT_S
    ) -> tuple[dict[int, Any], NodeLoss | None]:
        """By node the results that can be had, and the loss of a node that gives none."""
        found: dict[int, Any] = {}
        self._heartbeat.wait_for(self._with_agents(refs), limit_s)
        for node, ref in enumerate(refs):
            try:
                found[node] = ray.get(ref, timeout=0)
            except UNREACHABLE as error:
                self._lose(node, error)
        return found, self.loss

    def _with_agents(self, refs: Sequence[Any]) -> dict[Any, Any]:
        return dict(zip(refs, self._agents, strict=False))

    def _lose(self, node: int, error: Exception) -> NodeLoss:
        agent, name = self._agents[node], self.name(node)
        is_silent = self._heartbeat.is_silent(agent)
        if self.loss is None and is_silent:
            self.loss = silent(name, self._heartbeat.silent_s(agent))
        self.loss = self.loss or lost(name, error)
        if not is_there(error):
            self._heartbeat.give_up(agent)
        return self.loss


def _with_log_here(one: RankExit, directory: Path) -> RankExit:
    """`one`, with the end of its log in a file on this machine."""
    path = directory / f"rank-{one.rank}.log"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(one.log_end, encoding="utf-8")
    path.chmod(0o600)
    return replace(one, log_path=str(path.absolute()))

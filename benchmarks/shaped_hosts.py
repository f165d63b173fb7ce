"""Launches trials over hosts that are network namespaces of this machine, one rank on each.

Ranks are forked from a warm parent on each host, as the local executor has them forked from one.
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

from autotune.executors.base import Launch
from autotune.executors.local import RANK_COMMAND, LocalExecutor
from autotune.executors.node_agent import NodeAgent
from autotune.executors.order import Order
from autotune.executors.rank_environment import RankPlace
from autotune.executors.rank_starter import RankStarter
from autotune.executors.team import Team
from autotune.executors.watch import Limits
from tests.netns import LINK, Host

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


class ShapedHostsExecutor(LocalExecutor):
    """One node for each host; a launch takes all of them."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        super().__init__()
        self._hosts = tuple(hosts)
        self._agent = HostsAgent(hosts, lambda: self.machine().cores)

    def _order(self, launch: Launch) -> Order:
        return replace(
            super()._order(launch),
            nodes=len(self._hosts),
            address=self._hosts[0].address,
        )

    def _check(self, launch: Launch) -> None:
        if (launch.nodes, launch.ranks_per_node) != (len(self._hosts), 1):
            raise ValueError(f"has to be 1 rank on each of {len(self._hosts)} nodes")


class HostsAgent(NodeAgent):
    """One agent for all hosts, whose processes it sees: these have a network of their own only."""

    def __init__(self, hosts: Sequence[Host], cores: Callable[[], int]) -> None:
        starters = [RankStarter() for _ in hosts]
        super().__init__(
            rank_command=RANK_COMMAND, starter=starters[0], cores=cores, term_s=Limits.term_s
        )
        self._hosts = tuple(zip(hosts, starters, strict=True))

    def prepare(self) -> None:
        for host, starter in self._hosts:
            with _inside(host):
                starter.prepare(os.environ)

    def get_ready(self, order: Order, cancel: Event) -> None:
        environment = self._environment(order, order.nobody, {})
        for host, starter in self._hosts:
            with _inside(host):
                starter.get_ready(RANK_COMMAND, environment, cancel)

    def close(self) -> None:
        super().close()
        for _, starter in self._hosts:
            starter.close()

    def _start_ranks(self, order: Order, spec: Path, port: int, team: Team, cancel: Event) -> None:
        for rank, (host, starter) in enumerate(self._hosts):
            with team.channels.open(rank) as channel, _inside(host):
                command = self._command(order, spec, rank, channel, port, team)
                team.ranks.append(starter.start(command, cancel))

    def _environment(
        self, order: Order, place: RankPlace, own: Mapping[str, str]
    ) -> dict[str, str]:
        return {**super()._environment(order, place, own), "GLOO_SOCKET_IFNAME": LINK}

    def listen(self, address: str) -> int:
        with _inside(self._hosts[0][0]):
            return super().listen(address)


@contextmanager
def _inside(host: Host) -> Iterator[None]:
    """Has this thread, and what it starts meanwhile, on `host`."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        there = os.open(f"/run/netns/{host.namespace}", os.O_RDONLY)
        try:
            _enter(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _enter(before)
    finally:
        os.close(before)


def _enter(descriptor: int) -> None:
    if _LIBC.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "this process can't change its network namespace")

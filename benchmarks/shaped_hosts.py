"""Launches trials over hosts that are network namespaces of this machine, one rank on each.

Ranks are forked from a warm parent on each host, as the local executor has them forked from one.
"""

import ctypes
import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Self

from autotune.executors.base import Launch
from autotune.executors.local import RANK_COMMAND, LocalExecutor
from autotune.executors.rank_environment import RankPlace, rank_environment
from autotune.executors.rank_process import RankCommand
from autotune.executors.rank_starter import RankStarter
from autotune.executors.team import Team
from autotune.model import encode
from tests.netns import LINK, Host

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


class ShapedHostsExecutor(LocalExecutor):
    """One node for each host; a launch takes all of them."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        super().__init__()
        self._hosts = tuple(hosts)
        self._starters = [RankStarter() for _ in hosts]

    def __enter__(self) -> Self:
        for host, starter in zip(self._hosts, self._starters, strict=True):
            with _inside(host):
                starter.prepare(os.environ)
        return self

    def close(self) -> None:
        for starter in self._starters:
            starter.close()

    def _check(self, launch: Launch) -> None:
        if (launch.nodes, launch.ranks_per_node) != (len(self._hosts), 1):
            raise ValueError(f"has to be 1 rank on each of {len(self._hosts)} nodes")

    def _start(self, launch: Launch, team: Team, cancel: Event) -> None:
        launch.directory.mkdir(parents=True, exist_ok=True)
        spec = launch.directory.absolute() / "spec.json"
        spec.write_text(json.dumps(encode(launch.spec)))
        with ExitStack() as stack:
            with _inside(self._hosts[0]):
                store = stack.enter_context(socket.create_server((self._hosts[0].address, 0)))
            for rank, (host, starter) in enumerate(zip(self._hosts, self._starters, strict=True)):
                with team.channels.open(rank) as channel, _inside(host):
                    command = self._on_host(launch, spec, rank, team, channel, store)
                    team.ranks.append(starter.start(command, cancel))

    def _on_host(
        self,
        launch: Launch,
        spec: Path,
        rank: int,
        team: Team,
        channel: socket.socket,
        store: socket.socket,
    ) -> RankCommand:
        place = RankPlace(
            rank=rank,
            ranks=len(self._hosts),
            port=store.getsockname()[1],
            channel_fd=channel.fileno(),
            store_fd=store.fileno() if rank == 0 else None,
        )
        own = {
            "MASTER_ADDR": self._hosts[0].address,
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "GLOO_SOCKET_IFNAME": LINK,
        }
        variables = rank_environment(
            {**os.environ, **team.scratch.variables(os.environ)},
            launch.spec.environment,
            place,
            cores=self.machine().cores,
        )
        fds = [place.channel_fd] + [store.fileno()] * (rank == 0)
        return RankCommand(
            rank=rank,
            arguments=(*RANK_COMMAND, str(spec)),
            environment={**variables, **own},
            log_path=launch.directory.absolute() / f"rank-{rank}.log",
            descriptors=tuple(fds),
        )


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

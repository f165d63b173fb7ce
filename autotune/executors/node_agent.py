"""What one node does of a trial: starts its ranks, hears them, ends them, and cleans up."""

import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event

from autotune.executors.base import LaunchEnd
from autotune.executors.channel import Fault
from autotune.executors.device_memory import DeviceMemory
from autotune.executors.inspection import inspect
from autotune.executors.launch_facts import NodesEnd
from autotune.executors.live_ranks import Fit, LiveRanks
from autotune.executors.node_job import NodeJob
from autotune.executors.nodes import NodeEvent, StartError
from autotune.executors.order import Order
from autotune.executors.orphans import end_orphans
from autotune.executors.own_folder import remove_abandoned
from autotune.executors.quarantine import Quarantine
from autotune.executors.rank_environment import RankPlace, rank_environment
from autotune.executors.rank_process import RankCommand
from autotune.executors.rank_starter import RankStarter
from autotune.executors.standing import Standing
from autotune.executors.team import Team
from autotune.model import DeviceKind, encode
from autotune.model.protocol import Answer


class NodeAgent:
    """The agent of one node, for one trial after the other. Not thread-safe."""

    def __init__(
        self,
        *,
        rank_command: Sequence[str],
        starter: RankStarter,
        cores: Callable[[], int],
        term_s: float,
        live: bool = False,
        memory_before: Sequence[int] | None = None,
    ) -> None:
        """`rank_command` gets the path of the spec as its last argument.

        `cores` are shared out among the ranks. `term_s` is between TERM and KILL. `live`: ranks may
        wait for another trial after theirs. `memory_before` are the bytes that were in use on each
        GPU before an agent that died here had its first trial.
        """
        remove_abandoned()
        self._rank_command = tuple(rank_command)
        self._starter = starter
        self._cores = cores
        self._term_s = term_s
        self._quarantine = Quarantine()
        self._live = LiveRanks(wanted=live, on_survivors=self._quarantine.add)
        self._store: socket.socket | None = None
        self._job: NodeJob | None = None
        self._earlier = 0
        """Trials that the ranks of the last one had finished before."""
        self._memory_before = memory_before
        self._is_ready = False
        """It has been waited for what outlives trials."""
        self._left = ""
        """What could be seen of them and didn't go away, until a trial has told it."""

    def prepare(self) -> None:
        """Have the imports start while the first trial is thought of."""
        self._starter.prepare(os.environ)

    def close(self) -> None:
        """End whatever was kept for later trials."""
        self.abandon()
        self._live.end()  # before the warm parent, whose ranks they are
        self._starter.close()

    def listen(self, address: str) -> int:
        """Bind the port at which the next trial's ranks meet.

        Rank 0 inherits the socket: nobody can take the port between finding and using it.
        """
        self._stop_listening()
        self._store = socket.create_server((address, 0), backlog=128)
        port: int = self._store.getsockname()[1]
        return port

    def get_ready(self, order: Order, cancel: Event) -> None:
        """Before the first trial, wait for what outlives trials.

        That's the imports, and that nothing is left of what an agent before this one ran. Returns
        early if `cancel` is set. Imports that a later trial waits for, since its own variables want
        others, take that trial's time.
        """
        if self._is_ready:
            return
        self._is_ready = True
        self._quarantine.add(end_orphans())
        if self._memory_before is not None:
            self._left = "; ".join(DeviceMemory(self._memory_before).wait_until_free())
        environment = self._environment(order, order.nobody, {})
        self._starter.get_ready(self._rank_command, environment, cancel)

    def start(self, order: Order, cancel: Event) -> None:
        """Start the ranks of `order`. Raises StartError; what did start is then ended."""
        self._earlier = 0
        if held := self._quarantine.reason():
            raise StartError(held)
        fit = self._fit(order)
        try:
            team = self._live.take(fit) or self._new_team(order)
            self._earlier = team.trials
            self._job = NodeJob(team=team, fit=fit)
            self._start(order, team, cancel)
        except OSError as error:
            self.abandon()
            raise StartError(f"the trial can't be started: {error}") from error
        finally:
            self._stop_listening()
        self._job.follow_logs()

    def wait(self, timeout_s: float) -> list[NodeEvent]:
        return self._now.wait(timeout_s)

    def send(self, rank: int, answer: Answer) -> Fault | None:
        return self._now.team.channels.send(rank, answer)

    def inspect(self) -> tuple[Standing, ...]:
        return inspect(self._now.team.ranks, self._now.team.channels)

    def end(self, *, may_stay: bool) -> NodesEnd:
        job = self._now
        job.stays = may_stay and job.fit is not None and job.team.is_sound
        survivors = [] if job.stays else job.team.end()
        self._quarantine.add(survivors)
        return job.ended(survivors)

    def finish(self, *, well: bool) -> str:
        job = self._now
        if well:
            job.trim_logs()
            if job.stays and job.fit is not None:
                self._live.keep(job.team, job.fit)
                self._job = None
                return ""
        job.team.end()
        left = "; ".join(filter(None, [self._left, job.team.clean()]))
        self._job, self._left = None, ""
        return left

    def judged(self, end: LaunchEnd) -> LaunchEnd:
        """What the last trial's `end` is worth, if its ranks had run others before."""
        return self._live.judge(self._earlier, end)

    def abandon(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.stop_following()
            job.team.close()
        self._stop_listening()

    @property
    def _now(self) -> NodeJob:
        assert self._job is not None, "no trial was started"  # noqa: S101 - for programmers
        return self._job

    def _stop_listening(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _fit(self, order: Order) -> Fit | None:
        """What the ranks have to fit; None if they are to run no other trial."""
        if order.fresh or not self._live.may_keep:
            return None
        environment = self._environment(order, order.nobody, {})
        return Fit.of(order.spec, ranks=order.nobody.ranks, environment=environment)

    def _new_team(self, order: Order) -> Team:
        return Team(
            term_s=self._term_s,
            uses_gpus=order.spec.device is DeviceKind.CUDA,
            warden=self._starter.warden,
        )

    def _start(self, order: Order, team: Team, cancel: Event) -> None:
        """Have `team` run the trial. A new one's ranks are started one by one.

        So those that did start can be ended.
        """
        order.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        spec_path = order.directory.absolute() / "spec.json"
        _write_private(spec_path, json.dumps(encode(order.spec), allow_nan=False, indent=1))
        if team.ranks:
            team.go_on(spec_path)
            return
        port = order.port
        if order.node == 0:
            port = self._store.getsockname()[1] if self._store else self.listen(order.address)
            team.port = port
        self._start_ranks(order, spec_path, port, team, cancel)

    def _start_ranks(
        self, order: Order, spec_path: Path, port: int, team: Team, cancel: Event
    ) -> None:
        for rank in order.ranks:
            with team.channels.open(rank) as channel:
                command = self._command(order, spec_path, rank, channel, port, team)
                team.ranks.append(self._starter.start(command, cancel))

    def _command(
        self,
        order: Order,
        spec_path: Path,
        rank: int,
        channel: socket.socket,
        port: int,
        team: Team,
    ) -> RankCommand:
        place = RankPlace(
            rank=rank,
            ranks=order.nodes * order.ranks_per_node,
            nodes=order.nodes,
            address=order.address,
            port=port,
            channel_fd=channel.fileno(),
            store_fd=self._store.fileno() if self._store and rank == 0 else None,
            live=self._fit(order) is not None,
        )
        descriptors = [place.channel_fd] + [place.store_fd] * (place.store_fd is not None)
        return RankCommand(
            rank=rank,
            arguments=(*self._rank_command, str(spec_path)),
            environment=self._environment(order, place, team.scratch.variables(os.environ)),
            log_path=order.directory.absolute() / f"rank-{rank}.log",
            descriptors=tuple(fd for fd in descriptors if fd is not None),
        )

    def _environment(
        self, order: Order, place: RankPlace, own: Mapping[str, str]
    ) -> dict[str, str]:
        around = {**os.environ, **own}
        return rank_environment(around, order.spec.environment, place, cores=self._cores())


def _write_private(path: Path, text: str) -> None:
    """Write `text` for its owner alone: a workload's arguments may hold secrets."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)

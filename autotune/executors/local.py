"""The local executor: every rank of a trial is a process on this machine."""

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Self

from autotune.errors import ExecutorError
from autotune.executors.base import Executor, Launch, LaunchEnd, OnWindow
from autotune.executors.endings import decide
from autotune.executors.host import describe_machine
from autotune.executors.host_limits import oom_kills
from autotune.executors.kernel_log import KernelLog
from autotune.executors.launch_facts import LaunchFacts
from autotune.executors.live_ranks import Fit, LiveRanks
from autotune.executors.log_cap import KEPT_WELL_BYTES, LogCap
from autotune.executors.quarantine import Quarantine
from autotune.executors.rank_environment import RankPlace, rank_environment
from autotune.executors.rank_process import RankCommand
from autotune.executors.rank_starter import RankStarter
from autotune.executors.scratch import Scratch
from autotune.executors.team import Team
from autotune.executors.watch import Limits, Watch
from autotune.model import DeviceKind, Machine, Outcome, UserWorkload, encode

RANK_COMMAND = (sys.executable, "-m", "autotune.trainers.rank")
_ROOT = Path("/")


class LocalExecutor(Executor):
    """Launches trials on this machine. One trial at a time, from any thread."""

    def __init__(
        self,
        machine: Machine | None = None,
        *,
        rank_command: Sequence[str] = RANK_COMMAND,
        limits: Limits | None = None,
        cold: bool = False,
        workload: UserWorkload | None = None,
        starter: RankStarter | None = None,
        live: bool = False,
    ) -> None:
        """`machine` is what this machine is, if that is known already.

        `rank_command` gets the path of the spec as its last argument. Of `limits`, the time limit
        is each launch's own. `cold`: every rank is a fresh interpreter, which takes seconds more.
        `workload` is the user's own, if it isn't built in. `live`: a launch that needn't be fresh
        may run in the ranks of the one before.
        """
        self._rank_command = tuple(rank_command)
        self._machine = machine
        self._limits = limits or Limits()
        self._workload = workload
        self._starter = starter or RankStarter(cold=cold, workload=workload)
        self._quarantine = Quarantine()
        self._live = LiveRanks(wanted=live, on_survivors=self._quarantine.add)

    def __enter__(self) -> Self:
        self._starter.prepare(os.environ)  # it imports while the first trial is thought of
        return self

    def close(self) -> None:
        self._live.end()  # before the warm parent, whose ranks they are
        self._starter.close()

    def machine(self) -> Machine:
        if self._machine is None:
            self._machine = describe_machine()
        return self._machine

    def run(self, launch: Launch, on_window: OnWindow, cancel: Event) -> LaunchEnd:
        self._check(launch)
        if cancel.is_set():
            reason = "ended because the run was stopped"
            return LaunchEnd(outcome=Outcome.CANCELLED, reason=reason)
        if held := self._quarantine.reason():
            return LaunchEnd(outcome=Outcome.ENVIRONMENT, reason=held)
        if self._workload is not None and (changed := self._workload.changed()):
            reason = f"{changed}: trials before and after can't be compared; start a new run"
            return LaunchEnd(outcome=Outcome.ENVIRONMENT, reason=reason)
        with ExitStack() as stack:
            kills_before = oom_kills(_ROOT)
            kernel = stack.enter_context(KernelLog())
            fit = self._fit(launch)
            try:
                team = self._live.take(fit) or self._new_team(launch)
                stack.callback(lambda: self._live.keeps(team) or team.close())
                self._start(launch, team, cancel)
            except OSError as error:
                reason = f"the trial can't be started: {error}"
                return LaunchEnd(outcome=Outcome.ENVIRONMENT, reason=reason)
            logs = stack.enter_context(LogCap([rank.log_path for rank in team.ranks]))
            limits = replace(
                self._limits,
                time_s=launch.time_limit_s,
                first_step_s=launch.first_step_limit_s,
            )
            watch = Watch(
                team.ranks, team.channels, limits, on_window, cancel, plan=launch.spec.plan
            )
            watch.until_over()
            standings = watch.standings()
            stays = fit is not None and watch.all_ready and team.is_sound
            survivors = [] if stays else team.end()
            self._quarantine.add(survivors)
            logs.finish()
            end = decide(
                LaunchFacts(
                    ranks=watch.ends(),
                    measurement=watch.measurement,
                    windows=watch.windows,
                    planned_windows=launch.spec.plan.windows,
                    stopped=watch.stopped,
                    halt=watch.halt,
                    seconds=watch.seconds,
                    silent_s=watch.pace.silent_s(watch.seconds),
                    expected_s=watch.pace.expected_s,
                    steps=watch.pace.steps,
                    standings=standings,
                    has_environment=bool(launch.spec.environment),
                    oom_kills=oom_kills(_ROOT) - kills_before,
                    kernel_log=kernel.text(),
                    survivors=tuple(survivors),
                )
            )
            if end.outcome in (Outcome.COMPLETED, Outcome.PRUNED):
                logs.trim(KEPT_WELL_BYTES)
                if stays and fit is not None:
                    self._live.keep(team, fit)
                    return end
            team.end()
            return self._live.judge(team, replace(end, left_behind=team.clean()))

    def _check(self, launch: Launch) -> None:
        if launch.nodes != 1:
            raise ExecutorError(
                f"the local executor has 1 node, {launch.nodes} were asked for",
                hint="use a cluster's executor for more nodes",
            )
        gpus = len(self.machine().gpus)
        if launch.spec.device is DeviceKind.CUDA and launch.ranks_per_node > gpus:
            raise ExecutorError(
                f"{launch.ranks_per_node} ranks need a GPU each, this machine is: "
                f"{self.machine().describe()}"
            )

    def _fit(self, launch: Launch) -> Fit | None:
        """What the ranks have to fit; None if they are to run no other trial."""
        if launch.fresh or not self._live.may_keep:
            return None
        nobody = RankPlace(rank=0, ranks=launch.ranks_per_node, port=0, channel_fd=0, store_fd=None)
        environment = self._environment(launch, nobody, {})
        return Fit.of(launch.spec, ranks=launch.ranks_per_node, environment=environment)

    def _new_team(self, launch: Launch) -> Team:
        return Team(
            term_s=self._limits.term_s,
            uses_gpus=launch.spec.device is DeviceKind.CUDA,
            warden=self._starter.warden,
        )

    def _start(self, launch: Launch, team: Team, cancel: Event) -> None:
        """Have `team` run the trial. A new one's ranks are started one by one.

        So those that did start can be ended.
        """
        launch.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        spec_path = launch.directory.absolute() / "spec.json"
        _write_private(spec_path, json.dumps(encode(launch.spec), allow_nan=False, indent=1))
        if team.ranks:
            team.go_on(spec_path)
            return
        # Bound here and inherited by rank 0: nobody can take the port between finding and using it.
        with socket.create_server(("127.0.0.1", 0), backlog=128) as store:
            for rank in range(launch.ranks_per_node):
                with team.channels.open(rank) as channel:
                    command = self._command(launch, spec_path, rank, channel, store, team.scratch)
                    team.ranks.append(self._starter.start(command, cancel))
            team.port = store.getsockname()[1]

    def _command(
        self,
        launch: Launch,
        spec_path: Path,
        rank: int,
        channel: socket.socket,
        store: socket.socket,
        scratch: Scratch,
    ) -> RankCommand:
        place = RankPlace(
            rank=rank,
            ranks=launch.ranks_per_node,
            port=store.getsockname()[1],
            channel_fd=channel.fileno(),
            store_fd=store.fileno() if rank == 0 else None,
            live=self._fit(launch) is not None,
        )
        descriptors = [place.channel_fd] + [place.store_fd] * (place.store_fd is not None)
        return RankCommand(
            rank=rank,
            arguments=(*self._rank_command, str(spec_path)),
            environment=self._environment(launch, place, scratch.variables(os.environ)),
            log_path=launch.directory.absolute() / f"rank-{rank}.log",
            descriptors=tuple(fd for fd in descriptors if fd is not None),
        )

    def _environment(
        self, launch: Launch, place: RankPlace, own: Mapping[str, str]
    ) -> dict[str, str]:
        around = {**os.environ, **own}
        cores = self.machine().cores
        return rank_environment(around, launch.spec.environment, place, cores=cores)


def _write_private(path: Path, text: str) -> None:
    """Write `text` for its owner alone: a workload's arguments may hold secrets."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)

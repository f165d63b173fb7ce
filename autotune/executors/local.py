"""The local executor: every rank of a trial is a process on this machine."""

import sys
from collections.abc import Sequence
from functools import partial
from threading import Event
from typing import Self

from autotune.errors import ExecutorError
from autotune.executors.base import Executor, Launch, LaunchEnd, OnWindow, check_unchanged
from autotune.executors.host import describe_machine
from autotune.executors.node_agent import NodeAgent
from autotune.executors.one_trial import run_trial
from autotune.executors.order import Order
from autotune.executors.rank_starter import RankStarter
from autotune.executors.watch import Limits
from autotune.model import DeviceKind, Machine, UserWorkload

RANK_COMMAND = (sys.executable, "-m", "autotune.trainers.rank")


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
        self._machine = machine
        self._limits = limits or Limits()
        self._workload = workload
        self._agent = NodeAgent(
            rank_command=rank_command,
            starter=starter or RankStarter(cold=cold, workload=workload),
            cores=lambda: self.machine().cores,
            term_s=self._limits.term_s,
            live=live,
        )

    def __enter__(self) -> Self:
        self._agent.prepare()
        return self

    def close(self) -> None:
        self._agent.close()

    def machine(self) -> Machine:
        if self._machine is None:
            self._machine = describe_machine()
        return self._machine

    def run(self, launch: Launch, on_window: OnWindow, cancel: Event) -> LaunchEnd:
        self._check(launch)
        check_unchanged(self._workload)
        order = self._order(launch)
        get_ready = partial(self._agent.get_ready, order, cancel)
        start = partial(self._agent.start, order, cancel)
        end = run_trial(self._agent, get_ready, start, launch, self._limits, on_window, cancel)
        return self._agent.judged(end)

    def _order(self, launch: Launch) -> Order:
        return Order(
            spec=launch.spec,
            ranks_per_node=launch.ranks_per_node,
            directory=launch.directory,
            fresh=launch.fresh,
        )

    def _check(self, launch: Launch) -> None:
        if launch.nodes != 1:
            raise ExecutorError(
                f"the local executor has 1 node, {launch.nodes} were asked for",
                hint="use a cluster's executor for more nodes: --executor ray",
            )
        gpus = len(self.machine().gpus)
        if launch.spec.device is DeviceKind.CUDA and launch.ranks_per_node > gpus:
            raise ExecutorError(
                f"{launch.ranks_per_node} ranks need a GPU each, this machine is: "
                f"{self.machine().describe()}"
            )

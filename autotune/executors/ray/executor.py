"""The Ray executor: every node of a trial is a node of a Ray cluster, with an agent on it."""

import os
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Self

from ray.exceptions import RayError

from autotune.errors import ExecutorError
from autotune.executors.base import Executor, Launch, LaunchEnd, OnWindow, check_unchanged
from autotune.executors.one_trial import run_trial
from autotune.executors.rank_environment import carried_environment
from autotune.executors.ray.actor import AgentOptions, NodeFacts
from autotune.executors.ray.choice import Misfit
from autotune.executors.ray.cluster import AUTO, connected, find_nodes
from autotune.executors.ray.placed import PLACE_LIMIT_S, Placed
from autotune.executors.ray.preflight import all_reduce, at_best, findings
from autotune.executors.watch import Limits
from autotune.model import DeviceKind, Machine, Outcome, UserWorkload

REPLACE_LIMIT_S = 120.0
"""For another node in the place of one that was lost: a cluster that grows needs minutes."""


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
        misfit: Misfit = lambda _: "",
        replace_limit_s: float = REPLACE_LIMIT_S,
    ) -> None:
        """Connects, and takes its nodes. Of `limits`, the time limit is each launch's own.

        Nodes with a `misfit` are left alone. Raises UserError for a cluster with too few nodes that
        are alike, and ExecutorError for one that doesn't answer.
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
        self._team: Placed | None = None
        self._stack = ExitStack()
        with ExitStack() as stack:
            folder = workload.folder if workload else ""
            self.dashboard = stack.enter_context(connected(address, folder=folder))
            choice = find_nodes(nodes, misfit)
            self._kind, self.left_out = choice.kind, choice.notices
            stack.callback(self.release)
            self._team = Placed(self._kind, nodes, self._options, PLACE_LIMIT_S, Event())
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
        """How fast the nodes' links are, and which nodes are slower than the others.

        In sentences; takes some seconds.
        """
        if self._nodes == 1:
            return []
        nodes = self._placed(Event()).nodes
        probes = nodes.probe()
        if findings(probes):  # a busy moment doesn't come twice
            probes = at_best(probes, nodes.probe())
        if nodes.loss is not None:
            self.release()
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

    def _placed(self, cancel: Event) -> Placed:
        """The nodes, taken anew if the last ones were lost. Raises ExecutorError."""
        if self._team is None:
            limit_s = self._replace_limit_s
            self._team = Placed(self._kind, self._nodes, self._options, limit_s, cancel)
        return self._team

    def release(self) -> None:
        """Give the nodes back until the next trial."""
        team, self._team = self._team, None
        if team is not None:
            team.close()

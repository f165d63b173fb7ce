"""What `autotune run --executor ray` does otherwise than a run on this machine."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autotune.cli.option_set import quotable
from autotune.cli.options import ExecutorName
from autotune.compose import Launching
from autotune.errors import FieldError
from autotune.executors.rank_environment import carried_environment
from autotune.machines import Found, Place, find_place
from autotune.model import Machine, Study, UserWorkload
from autotune.request import Request
from autotune.yaml_reader import Source

if TYPE_CHECKING:
    from autotune.executors.ray.executor import RayExecutor


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """What was asked for of a cluster."""

    nodes: int
    address: str | None
    parallel_trials: int | None = 1
    """None is as many as there is room for."""

    @property
    def flags(self) -> str:
        """As they are typed after `resume`, which knows the nodes."""
        address = f" --address {shlex.quote(self.address)}" if self.address else ""
        return f" --executor ray{address}"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Nodes that are taken, with their agents on them."""

    executor: "RayExecutor"
    options: ClusterOptions

    def place(self, name: str, *, instances: list[Source], ask_ec2: bool) -> Place:
        """What the nodes are. Raises as `find_place` does."""
        facts = self.executor.facts[0]
        found = Found(
            machine=facts.machine,
            links=facts.links,
            instance_type=lambda: facts.instance_type,
            called="a node of the cluster",
        )
        place = find_place(name, instances=instances, ask_ec2=ask_ec2, found=found)
        self.executor.named(place.machine)
        return place

    def launching(self, launching: Launching) -> Launching:
        """With the cluster in the place of this machine."""
        return replace(launching, cluster=self.executor, cluster_flags=self.options.flags)

    @property
    def notices(self) -> list[str]:
        """What a person should know before the first trial."""
        where = ", ".join(f"{node.host} ({node.address})" for node in self.executor.facts)
        dashboard = f"; dashboard: {self.executor.dashboard}" if self.executor.dashboard else ""
        lanes = self.executor.at_once
        at_once = f"; {lanes} trials at once" if lanes > 1 and not self.executor.groups else ""
        groups = [self.executor.groups] if self.executor.groups else []
        said = [*self.executor.left_out, *groups, *self.executor.preflight()]
        return [f"Ray: {where}{at_once}{dashboard}", *said]


def chosen_cluster(
    executor: ExecutorName,
    nodes: int | None,
    address: str | None,
    others: Mapping[str, object],
    parallel: str | None = None,
) -> ClusterOptions | None:
    """What is asked for of a cluster; None without the Ray executor.

    `parallel` is --parallel-trials.

    `others` are options that mean nothing with it. Raises FieldError for what contradicts itself.
    """
    if executor is not ExecutorName.RAY:
        given = {"--nodes": nodes, "--address": address, "--parallel-trials": parallel}
        for name, value in given.items():
            if value is not None:
                also = " or sagemaker" if name == "--nodes" else ""
                raise FieldError(name, value, f"needs --executor ray{also}")
        return None
    for name, other in others.items():
        if other:
            raise FieldError(name, quotable(other), "doesn't go with --executor ray")
    return ClusterOptions(
        nodes=nodes or 1, address=address, parallel_trials=_parallel_trials(parallel)
    )


def cluster_again(
    study: Study,
    executor: ExecutorName,
    address: str | None,
    others: Mapping[str, object],
    parallel: str | None,
) -> ClusterOptions | None:
    """As `chosen_cluster`, for what is left of `study`, which knows the rest."""
    if executor is not ExecutorName.RAY:
        return chosen_cluster(executor, None, address, others, parallel)
    spec = study.spec
    before = "auto" if spec.parallel_trials is None else str(spec.parallel_trials)
    return chosen_cluster(executor, spec.target.nodes, address, others, parallel or before)


def _parallel_trials(text: str | None) -> int | None:
    """What --parallel-trials says; None is as many as there is room for. Raises FieldError."""
    if text == "auto":
        return None
    if text is None:
        return 1
    if not text.isdecimal() or int(text) < 1:
        raise FieldError("--parallel-trials", text, "is neither auto nor a number from 1 on")
    return int(text)


def for_cluster(request: Request, options: ClusterOptions) -> Request:
    """`request`, for as many nodes, with what of its environment ranks there will see."""
    return replace(
        request,
        assumed={**request.assumed, "nodes": str(options.nodes)},
        parallel_trials=options.parallel_trials,
        environment=carried_environment(request.environment),
    )


@contextmanager
def cluster_for(
    options: ClusterOptions | None,
    *,
    misfit: Callable[[Machine], str],
    cold: bool,
    ask_ec2: bool,
    workload: UserWorkload | None,
) -> Iterator[Cluster | None]:
    """The nodes, within; None without options. Raises UserError and ExecutorError.

    `misfit` says of a node's machine why it isn't what is asked for, or nothing.
    """
    if options is None:
        yield None
        return
    # Ray is an extra, and takes a second to import.
    from autotune.executors.ray.actor import AgentOptions  # noqa: PLC0415
    from autotune.executors.ray.executor import RayExecutor  # noqa: PLC0415

    executor = RayExecutor(
        options.nodes,
        address=options.address or "auto",
        options=AgentOptions(cold=cold, ask_ec2=ask_ec2),
        workload=workload,
        misfit=misfit,
        at_once=options.parallel_trials,
    )
    with executor:
        yield Cluster(executor=executor, options=options)

"""Where a study's trials run: on this machine, on a cluster's nodes, or on a landscape."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from autotune.cli.on_ray import ClusterOptions, cluster_for
from autotune.compose import Launching
from autotune.executors.landscapes import LandscapeSource
from autotune.machine_lock import MachineUse, machine_use
from autotune.machines import Place, find_place, simulated_place
from autotune.model import UserWorkload
from autotune.yaml_reader import Source


@dataclass(frozen=True, kw_only=True)
class Venue:
    """What is known of it before the first trial."""

    place: Place
    launching: Launching
    is_here: bool = False
    """Trials train on this machine."""
    notices: tuple[str, ...] = ()

    def using(self, *, share: bool) -> AbstractContextManager[MachineUse | None]:
        """To be held while trials run. Raises as `machine_use` does."""
        return machine_use(share=share) if self.is_here else nullcontext()


@contextmanager
def venue(
    instance: str,
    *,
    instances: Sequence[Source],
    launching: Launching,
    landscape: LandscapeSource | None = None,
    cluster: ClusterOptions | None = None,
    ask_ec2: bool = True,
    workload: UserWorkload | None = None,
) -> Iterator[Venue]:
    """Where `instance` is, held within. Raises UserError and ExecutorError."""
    sources = list(instances)
    if landscape is not None:
        yield Venue(place=simulated_place(landscape, instances=sources), launching=launching)
        return
    with cluster_for(cluster, cold=launching.cold, ask_ec2=ask_ec2, workload=workload) as nodes:
        if nodes is None:
            place = find_place(instance, instances=sources, ask_ec2=ask_ec2)
            yield Venue(place=place, launching=launching, is_here=True)
            return
        place = nodes.place(instance, instances=sources, ask_ec2=ask_ec2)
        launching = nodes.launching(launching)
        yield Venue(place=place, launching=launching, notices=tuple(nodes.notices))

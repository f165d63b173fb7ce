"""Where a study's trials run: on this machine, on a cluster's nodes, or on a landscape."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

from autotune.cli.on_ray import ClusterOptions, cluster_for
from autotune.compose import Launching
from autotune.executors.base import Executor
from autotune.executors.landscapes import LandscapeSource
from autotune.executors.local import LocalExecutor
from autotune.machine_lock import MachineUse, machine_use
from autotune.machines import Place, find_place, other_than, simulated_place
from autotune.model import UserWorkload
from autotune.yaml_reader import Source


@dataclass(frozen=True, kw_only=True)
class Venue:
    """What is known of it before the first trial."""

    place: Place
    launching: Launching
    find: Callable[[str], Place]
    """What it is under another name. Raises as `find_place` does."""
    is_here: bool = False
    """Trials train on this machine."""
    notices: tuple[str, ...] = ()

    @contextmanager
    def executor(self, workload: UserWorkload | None) -> Iterator[Executor]:
        """What launches trials of `workload` there, for what is no study."""
        if self.launching.cluster is not None:
            yield self.launching.cluster
            return
        with LocalExecutor(
            machine=self.place.machine, cold=self.launching.cold, workload=workload
        ) as made:
            yield made

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
        place = simulated_place(landscape, instances=sources)
        yield Venue(place=place, launching=launching, find=lambda _: place)
        return
    with cluster_for(
        cluster,
        misfit=partial(other_than, instance, instances=sources),
        cold=launching.cold,
        ask_ec2=ask_ec2,
        workload=workload,
    ) as nodes:
        if nodes is None:
            find = partial(find_place, instances=sources, ask_ec2=ask_ec2)
            yield Venue(place=find(instance), launching=launching, find=find, is_here=True)
            return
        find = partial(nodes.place, instances=sources, ask_ec2=ask_ec2)
        yield Venue(
            place=find(instance),
            launching=nodes.launching(launching),
            find=find,
            notices=tuple(nodes.notices),
        )

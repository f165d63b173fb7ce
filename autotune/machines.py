"""Which machine a command is about: this one, one that it has to be, or one of the catalogue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autotune.errors import FieldError, UserError
from autotune.executors.ec2_metadata import instance_type
from autotune.executors.host import describe_machine
from autotune.executors.host_links import find_links
from autotune.executors.landscapes import CPU, LandscapeSource
from autotune.model import GIB, SIMULATED, Machine, Target, UserWorkload
from autotune.space.facts import Facts, Links
from autotune.space.instances import (
    InstanceType,
    find_instance,
    load_instances,
    machine_of,
    mismatch,
)
from autotune.yaml_reader import Source

LOCAL = "local"
AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A node, and what is known of its connections."""

    machine: Machine
    instance: InstanceType | None = None
    """Its entry in the catalogue, if it goes by that name."""
    links: Links = field(default_factory=Links)
    is_here: bool = True

    def facts(
        self,
        target: Target,
        *,
        workload: UserWorkload | None = None,
        assumed: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Facts:
        """What conditions and rules may ask for. Raises FieldError for wrong assumptions."""
        return Facts.of(
            self.machine, target, workload=workload, instance=self.instance, links=self.links,
            assumed=assumed, environment=environment,
        )  # fmt: skip


def find_place(name: str, *, instances: Sequence[Source] = (), ask_ec2: bool = True) -> Place:
    """The machine that this runs on, as `name`: `local`, `auto`, or one of the catalogue.

    Raises FieldError for a name that is unknown, and UserError for one that this machine isn't.
    """
    machine = describe_machine()
    catalogue = load_instances(instances)
    if name == AUTO:
        found = instance_type() if ask_ec2 else None
        name = found if found in catalogue else LOCAL
    if name in (LOCAL, machine.instance):
        return Place(machine=machine, links=find_links())
    entry = _entry(name, catalogue)
    difference = mismatch(machine, entry)
    if difference:
        raise UserError(
            f"--instance: this machine isn't a {name}: {difference}",
            hint=f"run it on a {name}, or tune what is here with --instance {LOCAL}",
        )
    return Place(machine=replace(machine, instance=name), instance=entry, links=find_links())


def describe_place(
    name: str,
    *,
    instances: Sequence[Source] = (),
    ask_ec2: bool = True,
    assumed: Mapping[str, str] | None = None,
) -> Place:
    """As `find_place`, but with the catalogue's description of a machine that isn't here."""
    catalogue = load_instances(instances)
    if name in (LOCAL, AUTO) or (name not in catalogue and name == describe_machine().instance):
        return find_place(name, instances=instances, ask_ec2=ask_ec2)
    entry = _entry(name, catalogue)
    machine = describe_machine()
    if not assumed and mismatch(machine, entry) is None:
        return find_place(name, instances=instances)
    # Of the libraries that are installed here the other machine may have others.
    return Place(machine=machine_of(entry, {}), instance=entry, is_here=False)


def simulated_place(landscape: LandscapeSource, *, instances: Sequence[Source] = ()) -> Place:
    """The node that a landscape stands for. Raises UserError for mistakes in its file."""
    scenario = landscape.scenario()
    name = SIMULATED + landscape.label
    if scenario.machine == CPU:
        machine = Machine(
            instance=name,
            gpus=(),
            cpu="a simulated CPU",
            cores=scenario.cores,
            memory_bytes=round(scenario.memory_gib * GIB),
            numa_nodes=1,
            versions=scenario.versions,
        )
        return Place(machine=machine, is_here=False)
    entry = find_instance(scenario.machine, load_instances(instances))
    machine = machine_of(entry, scenario.versions)
    return Place(machine=replace(machine, instance=name), instance=entry, is_here=False)


def _entry(name: str, catalogue: Mapping[str, InstanceType]) -> InstanceType:
    if name not in catalogue:
        raise FieldError(
            "--instance", name, "is unknown", alternatives=[LOCAL, AUTO, *sorted(catalogue)],
            hint="autotune instances lists them",
        )  # fmt: skip
    return catalogue[name]

"""Which machine a command is about: this one, one that it has to be, or one of the catalogue."""

from collections.abc import Callable, Mapping, Sequence
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


@dataclass(frozen=True, kw_only=True)
class Found:
    """A machine as it says of itself what it is."""

    machine: Machine
    links: Links
    instance_type: Callable[[], str | None]
    """Asks EC2 for its name."""
    called: str = "this machine"

    @classmethod
    def here(cls) -> "Found":
        """The machine that this runs on."""
        return cls(machine=describe_machine(), links=find_links(), instance_type=instance_type)


def find_place(
    name: str,
    *,
    instances: Sequence[Source] = (),
    ask_ec2: bool = True,
    found: Found | None = None,
) -> Place:
    """The machine `found`, else this one, as `name`: `local`, `auto`, or one of the catalogue.

    Raises FieldError for a name that is unknown, and UserError for one that the machine isn't.
    """
    found = found or Found.here()
    machine = found.machine
    catalogue = load_instances(instances)
    if name == AUTO:
        said = found.instance_type() if ask_ec2 else None
        name = said if said in catalogue else LOCAL
    if name in (LOCAL, machine.instance):
        return Place(machine=machine, links=found.links)
    entry = _entry(name, catalogue)
    difference = mismatch(machine, entry)
    if difference:
        raise UserError(
            f"--instance: {found.called} isn't a {name}: {difference}",
            hint=f"run it on a {name}, or tune what is there with --instance {LOCAL}",
        )
    return Place(machine=replace(machine, instance=name), instance=entry, links=found.links)


def other_than(name: str, machine: Machine, *, instances: Sequence[Source] = ()) -> str:
    """Why `machine` isn't what is called `name`, as a clause; empty if it may be."""
    if name in (LOCAL, AUTO, machine.instance):
        return ""
    entry = load_instances(instances).get(name)
    if entry is None:
        return f"it is {machine.instance}, not {name}"
    difference = mismatch(machine, entry)
    return f"it isn't a {name}: {difference}" if difference else ""


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


def catalogued_place(name: str, *, instances: Sequence[Source] = ()) -> Place:
    """A machine of the catalogue that isn't here, whatever this one is.

    Raises FieldError for a name that is unknown.
    """
    catalogue = load_instances(instances)
    if name not in catalogue:
        raise FieldError(
            "--instance", name, "is not in the catalogue", alternatives=sorted(catalogue),
            hint="autotune instances lists them",
        )  # fmt: skip
    entry = catalogue[name]
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

"""The instance catalogue: what a machine type has, read from search_spaces/instances.yaml."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path

from autotune.errors import FieldError
from autotune.model import GIB, MIB, SIMULATED, Gpu, Machine
from autotune.space.documents import decode_fields, list_in
from autotune.space.gpus import is_model
from autotune.yaml_reader import Source, raise_mistakes, read_source

SHIPPED = Path(__file__).resolve().parent.parent / "search_spaces" / "instances.yaml"
MEMORY_TOLERANCE = 0.1
"""The driver shows less than the data sheet, 15 of 16 GiB on a T4 with ECC."""


class Interconnect(StrEnum):
    """How the GPUs of one node reach each other."""

    NVSWITCH = "nvswitch"
    """Every pair at full speed."""
    NVLINK = "nvlink"
    """Direct links, not between every pair."""
    PCIE = "pcie"
    NONE = "none"
    """There is one GPU."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """What an hour costs."""

    usd_per_hour: float
    as_of: str
    source: str


@dataclass(frozen=True, kw_only=True)
class InstanceType:
    """One machine type of the catalogue. None means that the value is not known."""

    name: str
    gpu: str
    """The model's name as the driver says it, without vendor and form factor."""
    gpus: int
    gpu_memory_mib: int
    """Of each GPU."""
    interconnect: Interconnect
    interconnect_gb_per_s: float | None = None
    """Of one GPU, both directions together, as vendors quote it."""
    cpu: str = ""
    vcpus: int
    memory_gib: int
    network_gbps: float
    """Of the node, all its cards together."""
    nics: int
    """Network cards that a collective can use: EFA interfaces where there are any."""
    efa: bool
    infiniband: bool = False
    """Nodes are connected by InfiniBand or RoCE."""
    delivers_in_order: bool | None = None
    """EFA brings bytes in order, so that its plugin leaves LL and LL128 on."""
    nic_near_gpu: bool | None = None
    """Every GPU reaches a network card through PCIe switches only."""
    compute_capability: int | None = None
    """Of the GPUs, such as 90; None is what `gpus` knows of the model."""
    numa_nodes: int | None = None
    price: Price | None = None
    presets: Mapping[str, str] = field(default_factory=dict)
    """NCCL variables that the EFA plugin sets by itself here unless the user has: they are what
    leaving a knob alone means."""
    unverified: tuple[str, ...] = ()
    """Fields above whose value is somebody's word, not the provider's data."""

    def __post_init__(self) -> None:
        if self.name.startswith(SIMULATED):
            raise FieldError("name", self.name, f"has to start otherwise than {SIMULATED!r}")
        for name in ("gpus", "gpu_memory_mib", "vcpus", "memory_gib", "nics"):
            if getattr(self, name) < 1:
                raise FieldError(name, getattr(self, name), "has to be at least 1")
        if (self.gpus == 1) != (self.interconnect is Interconnect.NONE):
            raise FieldError(
                "interconnect", self.interconnect.value, f"contradicts {self.gpus} GPUs"
            )
        for name in self.unverified:
            if name not in self.__dataclass_fields__:
                raise FieldError("unverified", name, "is no field of an instance")

    def describe(self) -> str:
        """One line for a person, in the words of Machine.describe."""
        return (
            f"{self.gpus} x {self.gpu} ({self.gpu_memory_mib / 1024:.0f} GiB each), "
            f"{self.vcpus} vCPUs, {self.memory_gib} GiB RAM"
        )


def load_instances(sources: Iterable[Source] = ()) -> dict[str, InstanceType]:
    """The shipped catalogue and then `sources`, by name; a later entry replaces an earlier one.

    Raises UserError that names file, line, field, value and rule of every mistake.
    """
    instances = dict(_shipped())
    for source in sources:
        instances |= _load(source)
    return instances


@cache
def _shipped() -> Mapping[str, InstanceType]:
    return _load(read_source(SHIPPED))


def find_instance(name: str, instances: Mapping[str, InstanceType]) -> InstanceType:
    """The entry called `name`. Raises FieldError with the names there are."""
    if name not in instances:
        raise FieldError("instance", name, "is not in the catalogue", alternatives=instances)
    return instances[name]


def machine_of(instance: InstanceType, versions: Mapping[str, str]) -> Machine:
    """A node of this type as the catalogue describes it, for where there is none."""
    gpu = Gpu(name=instance.gpu, memory_bytes=instance.gpu_memory_mib * MIB)
    return Machine(
        instance=instance.name,
        gpus=(gpu,) * instance.gpus,
        cpu=instance.cpu or "unknown CPU",
        cores=instance.vcpus,
        memory_bytes=instance.memory_gib * GIB,
        numa_nodes=instance.numa_nodes or 1,
        versions=versions,
    )


def mismatch(machine: Machine, instance: InstanceType) -> str | None:
    """Why `machine` isn't one of `instance`, with both descriptions; None if it is one.

    It goes on from "this machine isn't a p4d.24xlarge: ". Only what a trial's result hangs on most
    is compared: memory and cores may be a container's.
    """
    difference = _difference(machine, instance)
    if difference is None:
        return None
    return (
        f"{difference}. A {instance.name} is {instance.describe()}; "
        f"this machine is {machine.describe()}"
    )


def _difference(machine: Machine, instance: InstanceType) -> str | None:
    if len(machine.gpus) != instance.gpus:
        return f"it has {len(machine.gpus)} visible GPUs, not {instance.gpus}"
    for gpu in machine.gpus:
        if not is_model(gpu.name, instance.gpu):
            return f"its GPU is {gpu.name}, not {instance.gpu}"
        expected = instance.gpu_memory_mib * MIB
        if abs(gpu.memory_bytes - expected) > MEMORY_TOLERANCE * expected:
            return (
                f"its {gpu.name} has {gpu.memory_bytes / GIB:.1f} GiB of memory, "
                f"not {expected / GIB:.1f} GiB"
            )
    return None


def _load(source: Source) -> dict[str, InstanceType]:
    mistakes: list[FieldError] = []
    instances: dict[str, InstanceType] = {}
    for index, entry in enumerate(list_in(source, "instances", mistakes)):
        path = f"instances[{index}]"
        instance = decode_fields(InstanceType, entry, path, mistakes)
        if instance and instance.name in instances:
            mistakes.append(FieldError(f"{path}.name", instance.name, "is there twice"))
        if instance:
            instances[instance.name] = instance
    raise_mistakes(source, mistakes)
    return instances

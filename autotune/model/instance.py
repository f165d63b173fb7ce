"""Machines: what one is like, and what a catalogue says it should be like."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.model.trial import DeviceKind

MIB = 2**20
GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU as the driver shows it."""

    name: str
    memory_bytes: int


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One node as it is found. `instance` is the name its results are stored under."""

    instance: str
    gpus: tuple[Gpu, ...]
    cpu: str
    cores: int
    """Usable by this process: affinity and container limits counted."""
    memory_bytes: int
    numa_nodes: int
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the driver and the libraries that trials will use."""

    @property
    def device(self) -> DeviceKind:
        return DeviceKind.CUDA if self.gpus else DeviceKind.CPU

    def describe(self) -> str:
        """One line for a person, e.g. `8 x NVIDIA A100-SXM4-40GB (40 GiB each), 96 cores, …`."""
        kinds: dict[tuple[str, int], int] = {}
        for gpu in self.gpus:
            key = (gpu.name, gpu.memory_bytes)
            kinds[key] = kinds.get(key, 0) + 1
        parts = [
            f"{count} x {name} ({memory / GIB:.0f} GiB each)"
            for (name, memory), count in kinds.items()
        ] or ["no GPU"]
        parts += [
            f"{self.cores} cores of {self.cpu}",
            f"{self.memory_bytes / GIB:.0f} GiB RAM",
            f"{self.numa_nodes} NUMA node{'s' if self.numa_nodes != 1 else ''}",
        ]
        return ", ".join(parts)

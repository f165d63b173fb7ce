"""How much memory a rank may have."""

from dataclasses import dataclass

from autotune.model import DeviceKind, Machine
from autotune.model.instance import GIB

ADDRESS_SPACE_BYTES = 770 << 20
"""Address space that a CPU rank takes beyond memory of its own: libraries, threads' stacks and
heaps. Measured as 718 to 826 MiB on two cores with PyTorch 2.13 for CPUs, x86-64, forked or not;
PyTorch for CUDA maps gigabytes more."""


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """Memory of one rank, and whose it is."""

    per_rank_bytes: int
    source: str
    """For a person, e.g. `the GPU's memory`."""

    def describe(self) -> str:
        return f"{self.per_rank_bytes / GIB:.1f} GiB per rank ({self.source})"


def capacity_of(
    machine: Machine,
    device: DeviceKind,
    ranks_per_node: int,
    *,
    address_space_bytes: int | None = None,
) -> Capacity | None:
    """What each rank may use; None if it isn't known.

    On CUDA the smallest GPU's memory. On CPU an equal share of the node's memory, which counts
    container limits. Nothing is set aside for this process and the ranks' warm parent: the pages
    that forked ranks share with the latter are counted with each of them, which is more.
    `address_space_bytes` is a limit on each process (ulimit -v), which counts reserved addresses
    as well.
    """
    if device is DeviceKind.CUDA:
        sizes = [gpu.memory_bytes for gpu in machine.gpus[:ranks_per_node]]
        if not sizes or not min(sizes):
            return None
        return Capacity(per_rank_bytes=min(sizes), source="the GPU's memory")
    limits = []
    if machine.memory_bytes:
        source = f"the host's memory over {ranks_per_node} ranks"
        limits.append((machine.memory_bytes // ranks_per_node, source))
    if address_space_bytes is not None:
        usable = max(0, address_space_bytes - ADDRESS_SPACE_BYTES)
        limits.append((usable, "the limit on address space, ulimit -v"))
    if not limits:
        return None
    size, source = min(limits)
    return Capacity(per_rank_bytes=size, source=source)

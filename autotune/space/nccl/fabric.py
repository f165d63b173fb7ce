"""What connects the GPUs of a communicator: that much of a machine as decides what NCCL can do."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from autotune.errors import FieldError
from autotune.space.unknown import unknown


class Network(StrEnum):
    """How the nodes reach each other."""

    NONE = "none"
    """There is one node."""
    SOCKET = "socket"
    """TCP/IP: NCCL's NET/Socket."""
    IB = "ib"
    """InfiniBand or RoCE: NCCL's NET/IB."""
    EFA = "efa"
    """AWS's Elastic Fabric Adapter through aws-ofi-nccl."""


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """The ranks of one communicator and what is between them. All nodes are alike."""

    compute_capability: int
    """Of the GPUs, major and minor together: 70 V100, 80 A100, 86 A10G, 90 H100, 100 B200."""
    nodes: int
    ranks_per_node: int
    network: Network = Network.NONE
    nvlink: bool = False
    """The GPUs of a node are linked by NVLink, with or without switches."""
    nvswitch: bool = False
    """They are linked through NVSwitches."""
    collnet: bool = False
    """A CollNet plugin is loaded and on (InfiniBand with SHARP, NCCL_COLLNET_ENABLE=1)."""
    why_simple: str = ""
    """Why the EFA plugin has set NCCL_PROTO=simple, or may have, as a clause; empty if it hasn't.
    Without it LL and LL128 would break where data arrives out of order within 128 bytes."""
    nic_near_gpu: bool | None = None
    """Each GPU reaches its NIC through PCIe switches only, not through the CPU; None: not known."""
    nvls_off: str = ""
    """Which variable switches NVLS off, as a clause; empty if none does."""

    def __post_init__(self) -> None:
        for name in ("nodes", "ranks_per_node"):
            if getattr(self, name) < 1:
                raise FieldError(name, getattr(self, name), "has to be at least 1")
        if (self.nodes > 1) == (self.network is Network.NONE):
            raise FieldError("network", self.network.value, f"contradicts {self.nodes} node(s)")

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def capability(self) -> str:
        """What the compute capability is, for a sentence."""
        major, minor = divmod(self.compute_capability, 10)
        return f"is {major}.{minor}" if major else unknown("compute_capability", 90)

    @property
    def has_nvlink(self) -> bool:
        return self.nvlink or self.nvswitch

    def shard_group(self, size: int) -> "Fabric":
        """A group of `size` consecutive ranks, as FSDP shards over: as few nodes as hold them."""
        nodes = math.ceil(size / self.ranks_per_node)
        return self._group(nodes, min(size, self.ranks_per_node))

    def replica_group(self, size: int) -> "Fabric":
        """The ranks that hold the same shard when groups of `size` shard: each `size`-th rank."""
        per_node = max(1, self.ranks_per_node // size)
        return self._group(math.ceil(self.ranks / size / per_node), per_node)

    def _group(self, nodes: int, ranks_per_node: int) -> "Fabric":
        if nodes > 1:
            return replace(self, nodes=nodes, ranks_per_node=ranks_per_node)
        return replace(self, nodes=1, ranks_per_node=ranks_per_node, network=Network.NONE)

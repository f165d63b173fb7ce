"""What is known of the machine and the job when a space is built: what conditions may ask for."""

from dataclasses import dataclass

from autotune.model import DeviceKind, Machine, Target


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything that decides which knobs and values exist, beside the candidate's own values."""

    device: DeviceKind
    nodes: int
    ranks_per_node: int
    global_batch: int
    """Samples per optimizer step."""
    torch: str = ""
    """Version, empty when not known."""
    nccl: str = ""
    """Version, empty on CPU."""

    @property
    def ranks(self) -> int:
        """Data-parallel ranks."""
        return self.nodes * self.ranks_per_node

    @classmethod
    def of(cls, machine: Machine, target: Target) -> "Facts":
        """The facts of `target` on `machine`."""
        return cls(
            device=machine.device,
            nodes=target.nodes,
            ranks_per_node=target.ranks_per_node,
            global_batch=target.global_batch,
            torch=machine.versions.get("torch", ""),
            nccl=machine.versions.get("nccl", ""),
        )

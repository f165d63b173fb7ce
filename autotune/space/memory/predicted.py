"""What a candidate is predicted to need: peak memory of one rank, by what it is needed for."""

from dataclasses import dataclass, fields
from functools import cached_property
from operator import ge

from autotune.model import DeviceKind

_OUTSIDE_ALLOCATOR = ("nccl", "process")


@dataclass(frozen=True, kw_only=True)
class PredictedMemory:
    """Bytes on one rank when it holds most. Predicted: a measured peak is a plain number."""

    device: DeviceKind
    parameters: int
    """This rank's share, in float32."""
    casts: int
    """Copies of the weights in the format that autocast computes in, kept until backward."""
    optimizer: int
    """AdamW's two moments, in float32, and on CPU its temporaries."""
    gradients: int
    """This rank's share, in float32."""
    unsharded_parameters: int
    """FSDP: the groups that are gathered, and the flat buffers that they are gathered into."""
    unsharded_gradients: int
    """Whole gradients before they are reduced; under FSDP all of them while micro-batches are
    accumulated without reduction."""
    buckets: int
    """DDP: what gradients are copied to, and what a communication hook makes of them."""
    activations: int
    """What backward needs of the blocks, the head's and backward's own temporaries included."""
    logits: int
    """Logits, their log-softmax and its gradient: three times tokens x vocabulary."""
    nccl: int
    """NCCL's own buffers, which PyTorch's allocator doesn't know."""
    process: int
    """CUDA context, or on CPU the interpreter with PyTorch, without pages of files."""
    gloo: int
    """CPU: copies that Gloo makes of what FSDP gathers and reduces."""
    heap: int
    """CPU: what the C library keeps of freed memory."""

    @cached_property
    def total_bytes(self) -> int:
        """What has to fit into the device's memory, or into this rank's share of the host's."""
        return sum(self.sizes)

    @cached_property
    def measured_bytes(self) -> int:
        """What Measurement.peak_memory_bytes shows of it: on CUDA the allocator's peak only."""
        components = self.components()
        if self.device is DeviceKind.CPU:
            return sum(components.values())
        return sum(size for name, size in components.items() if name not in _OUTSIDE_ALLOCATOR)

    @property
    def scaling_bytes(self) -> int:
        """The part that grows with the micro-batch, whose formula is the least certain."""
        return self.activations + self.logits

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Every component's bytes: kept, for predictions are compared by the thousand."""
        return tuple(getattr(self, f.name) for f in fields(self) if f.name != "device")

    def components(self) -> dict[str, int]:
        """Every component's bytes, by name."""
        names = (f.name for f in fields(self) if f.name != "device")
        return dict(zip(names, self.sizes, strict=True))


def needs_at_least(one: PredictedMemory, other: PredictedMemory) -> bool:
    """Whether `one` needs as much as `other` in every component, however wrong their sizes are."""
    return one.device is other.device and all(map(ge, one.sizes, other.sizes))

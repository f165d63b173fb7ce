"""What memory depends on, beside a candidate's own settings."""

from dataclasses import dataclass

from autotune.model import BFLOAT16_FROM, DeviceKind, Dtype, TrainingSettings, TransformerConfig
from autotune.space.nccl import NcclVersion

FLOAT32_BYTES = 4
BFLOAT16_BYTES = 2


@dataclass(frozen=True, kw_only=True)
class MemoryJob:
    """A workload on its ranks."""

    config: TransformerConfig
    device: DeviceKind
    nodes: int
    ranks_per_node: int
    nccl: NcclVersion | None = None
    """None on CPU, or where not known."""
    compute_capability: int = 0
    """Of the GPUs, such as 90; 0 on CPU, or where not known."""

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def is_cuda(self) -> bool:
        return self.device is DeviceKind.CUDA

    def shards(self, settings: TrainingSettings) -> int:
        """Ranks among which parameters are divided; 1 under DDP."""
        return (settings.shard_size or self.ranks) if settings.strategy.is_fsdp else 1

    def compute_bytes(self, settings: TrainingSettings) -> int:
        """Of one element in matrix products: by default bfloat16 on GPUs that have it."""
        is_old = 0 < self.compute_capability < BFLOAT16_FROM
        default = BFLOAT16_BYTES if self.is_cuda and not is_old else FLOAT32_BYTES
        return _BYTES.get(settings.compute_dtype, default)

    def reduce_bytes(self, settings: TrainingSettings) -> int:
        """Of one element of a gradient that FSDP2 reduces: float32 by default."""
        return _BYTES.get(settings.reduce_dtype, FLOAT32_BYTES)

    def autocasts(self, settings: TrainingSettings) -> bool:
        """Whether weights stay in float32 and are cast where they are used: DDP, not FSDP2."""
        narrow = self.compute_bytes(settings) < FLOAT32_BYTES
        return narrow and not settings.strategy.is_fsdp


_BYTES = {Dtype.FLOAT32: FLOAT32_BYTES, Dtype.BFLOAT16: BFLOAT16_BYTES}

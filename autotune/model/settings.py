"""What a trial applies: how a workload is laid out over the ranks."""

from dataclasses import dataclass
from enum import StrEnum

from autotune.errors import FieldError


class ShardingStrategy(StrEnum):
    """How parameters, gradients and optimizer states are divided among the ranks."""

    DDP = "ddp"
    """Replicated; gradients are all-reduced."""
    FSDP_FULL = "fsdp_full"
    """FSDP2, parameters freed after forward (ZeRO-3)."""
    FSDP_GRAD_OP = "fsdp_grad_op"
    """FSDP2, parameters kept until backward has ended (ZeRO-2)."""
    HYBRID = "hybrid"
    """FSDP2 on a 2-D mesh: sharded within groups, replicated across them."""

    @property
    def is_fsdp(self) -> bool:
        return self is not ShardingStrategy.DDP


class ActivationCheckpointing(StrEnum):
    """Which blocks recompute their activations in backward."""

    NONE = "none"
    EVERY_SECOND_BLOCK = "every_second_block"
    EVERY_BLOCK = "every_block"


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """One layout of a workload over its ranks. Batch sizes are in samples."""

    strategy: ShardingStrategy = ShardingStrategy.DDP
    micro_batch: int
    """Samples per rank in one forward and backward."""
    accumulation_steps: int = 1
    """Micro-batches per optimizer step."""
    reshard_after_forward: bool | int | None = None
    """FSDP only: free parameters after forward (True), keep them (False), or reshard to groups of
    this many ranks. None under DDP."""
    shard_size: int | None = None
    """Hybrid only: ranks per shard group."""
    bucket_cap_mb: int | None = None
    """DDP only, MiB: None is PyTorch's default (25 with a first bucket of 1)."""
    activation_checkpointing: ActivationCheckpointing = ActivationCheckpointing.NONE

    def __post_init__(self) -> None:
        for name in ("micro_batch", "accumulation_steps", "bucket_cap_mb", "shard_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise FieldError(name, value, "has to be at least 1")
        if self.strategy.is_fsdp:
            self._check_fsdp()
        else:
            self._check_ddp()

    def _check_fsdp(self) -> None:
        if self.bucket_cap_mb is not None:
            raise FieldError("bucket_cap_mb", self.bucket_cap_mb, "applies to strategy ddp only")
        if (self.shard_size is not None) != (self.strategy is ShardingStrategy.HYBRID):
            raise FieldError("shard_size", self.shard_size, "is given for strategy hybrid, only")
        reshard = self.reshard_after_forward
        expected = {
            ShardingStrategy.FSDP_FULL: reshard is not None and reshard is not False,
            ShardingStrategy.FSDP_GRAD_OP: reshard is False,
            ShardingStrategy.HYBRID: isinstance(reshard, bool),
        }
        if not expected[self.strategy]:
            raise FieldError(
                "reshard_after_forward", reshard, f"contradicts strategy {self.strategy}"
            )

    def _check_ddp(self) -> None:
        for name in ("reshard_after_forward", "shard_size"):
            if getattr(self, name) is not None:
                raise FieldError(name, getattr(self, name), "doesn't apply to strategy ddp")

    def global_batch(self, ranks: int) -> int:
        """Samples per optimizer step over `ranks` data-parallel ranks."""
        return self.micro_batch * self.accumulation_steps * ranks

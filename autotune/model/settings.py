"""What a trial applies: how a workload is laid out over the ranks."""

from dataclasses import dataclass, fields
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


class CommunicationHook(StrEnum):
    """What DDP does to gradients on their way. All but NONE change numerics."""

    NONE = "none"
    BF16 = "bf16"
    FP16 = "fp16"
    POWER_SGD = "power_sgd"


class Dtype(StrEnum):
    """A floating-point format.

    DEFAULT computes in bfloat16 on GPUs that have it, else in float32, and reduces in float32.
    """

    DEFAULT = "default"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


BFLOAT16_FROM = 80
"""Compute capability of the first GPUs with bfloat16 units (A100). Before them float16 would need a
loss scaler, which no trial has. Source: CUDA C++ Programming Guide, arithmetic instructions."""


class Binding(StrEnum):
    """Which cores a rank may run on."""

    NONE = "none"
    NUMA = "numa"
    """Those of the NUMA node of its GPU, or an equal share of the nodes without GPUs."""


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
    gradient_as_bucket_view: bool = False
    """DDP only: gradients are views into the buckets, which saves one copy of them."""
    static_graph: bool = False
    """DDP only: the same parameters take part in every step."""
    communication_hook: CommunicationHook = CommunicationHook.NONE
    """DDP only."""
    blocks_per_group: int = 1
    """FSDP only: transformer blocks whose parameters are gathered together."""
    forward_prefetch: int = 0
    """FSDP only: groups gathered ahead in forward; 0 is FSDP2's own implicit prefetch."""
    backward_prefetch: int = 0
    """FSDP only: groups gathered ahead in backward; 0 is FSDP2's own implicit prefetch."""
    reshard_after_backward: bool = True
    """FSDP only: False keeps parameters gathered between micro-batches of one optimizer step."""
    force_sum_reduction: bool = False
    """FSDP only: reduce by SUM and scale apart, which lets NCCL use NVLS and PAT."""
    compute_dtype: Dtype = Dtype.DEFAULT
    reduce_dtype: Dtype = Dtype.DEFAULT
    """FSDP only: format in which gradients are reduced."""
    compile: bool = False
    """torch.compile each block."""
    binding: Binding = Binding.NONE

    def __post_init__(self) -> None:
        for name in (
            "micro_batch", "accumulation_steps", "bucket_cap_mb", "shard_size", "blocks_per_group"
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and value < 1:
                raise FieldError(name, value, "has to be at least 1")
        for name in ("forward_prefetch", "backward_prefetch"):
            if getattr(self, name) < 0:
                raise FieldError(name, getattr(self, name), "has to be 0 or more")
        self._check_foreign()
        if self.strategy.is_fsdp:
            self._check_fsdp()

    @property
    def foreign(self) -> tuple[str, ...]:
        """Names of the settings that do nothing under this strategy."""
        if self.strategy is ShardingStrategy.DDP:
            return FSDP_ONLY
        return DDP_ONLY if self.strategy is ShardingStrategy.HYBRID else (*DDP_ONLY, *HYBRID_ONLY)

    def _check_foreign(self) -> None:
        """Settings of the other family of strategies have to be left alone."""
        defaults = {field.name: field.default for field in fields(self)}
        for name in DDP_ONLY if self.strategy.is_fsdp else FSDP_ONLY:
            if getattr(self, name) != defaults[name]:
                value = getattr(self, name)
                raise FieldError(name, value, f"doesn't apply to strategy {self.strategy.value}")

    def _check_fsdp(self) -> None:
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

    def global_batch(self, ranks: int) -> int:
        """Samples per optimizer step over `ranks` data-parallel ranks."""
        return self.micro_batch * self.accumulation_steps * ranks


DDP_ONLY = ("bucket_cap_mb", "gradient_as_bucket_view", "static_graph", "communication_hook")
"""Settings of `DistributedDataParallel`."""
HYBRID_ONLY = ("shard_size",)
FSDP_ONLY = (
    "reshard_after_forward",
    *HYBRID_ONLY,
    "blocks_per_group",
    "forward_prefetch",
    "backward_prefetch",
    "reshard_after_backward",
    "force_sum_reduction",
    "reduce_dtype",
)
"""Settings of `fully_shard` and what belongs to it."""

"""Which collectives a sharding strategy issues, and among which ranks."""

from collections.abc import Mapping
from enum import StrEnum

from autotune.errors import FieldError
from autotune.model import ShardingStrategy
from autotune.space.nccl.fabric import Fabric


class Collective(StrEnum):
    """NCCL's five functions that NCCL_ALGO and NCCL_PROTO speak of."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    BROADCAST = "broadcast"
    REDUCE = "reduce"

    @property
    def words(self) -> str:
        """For a sentence: `all-reduce`."""
        return self.value.replace("_", "-")

    @property
    def reduces(self) -> bool:
        return self not in (Collective.ALL_GATHER, Collective.BROADCAST)


_HEAVY = {
    ShardingStrategy.DDP: (Collective.ALL_REDUCE,),
    ShardingStrategy.FSDP_FULL: (Collective.ALL_GATHER, Collective.REDUCE_SCATTER),
    ShardingStrategy.FSDP_GRAD_OP: (Collective.ALL_GATHER, Collective.REDUCE_SCATTER),
    ShardingStrategy.HYBRID: (
        Collective.ALL_GATHER,
        Collective.REDUCE_SCATTER,
        Collective.ALL_REDUCE,
    ),
}
_LIGHT = {
    ShardingStrategy.DDP: (Collective.BROADCAST, Collective.ALL_GATHER),
    ShardingStrategy.FSDP_FULL: (Collective.ALL_REDUCE, Collective.BROADCAST),
    ShardingStrategy.FSDP_GRAD_OP: (Collective.ALL_REDUCE, Collective.BROADCAST),
    ShardingStrategy.HYBRID: (Collective.BROADCAST,),
}


def heavy_collectives(strategy: ShardingStrategy) -> tuple[Collective, ...]:
    """Those that move parameters or gradients in every step.

    DDP all-reduces gradients; FSDP2 all-gathers parameters and reduce-scatters gradients, one pair
    for each wrapped group; hybrid sharding also all-reduces the shards across its replicas.
    Source: torch 2.13 fully_shard, DistributedDataParallel.
    """
    return _HEAVY[strategy]


def collectives_of(strategy: ShardingStrategy) -> tuple[Collective, ...]:
    """All that a training run with `strategy` issues: the heavy ones, then the small ones.

    DDP broadcasts parameters and buffers and all-gathers their shapes when it is built; under FSDP
    the gradient norm and the loss are all-reduced. None of them may be left without an algorithm.
    """
    return _HEAVY[strategy] + _LIGHT[strategy]


def heavy_groups(
    strategy: ShardingStrategy,
    world: Fabric,
    *,
    shard_size: int | None = None,
    reshard_size: int | None = None,
) -> Mapping[Collective, tuple[Fabric, ...]]:
    """The communicators on which each heavy collective runs.

    `shard_size` is hybrid's; `reshard_size` an integer reshard_after_forward, whose second
    all-gather runs among that many consecutive ranks.
    """
    if strategy is not ShardingStrategy.HYBRID:
        groups: dict[Collective, tuple[Fabric, ...]] = dict.fromkeys(_HEAVY[strategy], (world,))
        if reshard_size is not None and strategy is ShardingStrategy.FSDP_FULL:
            groups[Collective.ALL_GATHER] = (world, world.shard_group(reshard_size))
        return groups
    if shard_size is None:
        raise FieldError("shard_size", shard_size, "is needed for strategy hybrid")
    shard, replica = world.shard_group(shard_size), world.replica_group(shard_size)
    return {
        Collective.ALL_GATHER: (shard,),
        Collective.REDUCE_SCATTER: (shard,),
        Collective.ALL_REDUCE: (replica,),
    }

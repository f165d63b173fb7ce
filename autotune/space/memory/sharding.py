"""What a strategy holds beside its own share: gathered parameters, whole gradients, buckets.

Source for FSDP2: torch/distributed/fsdp/_fully_shard (2.13): a group is gathered into one flat
buffer, which is copied into the parameters; gradients are copied into one flat buffer, which is
reduced. Source for DDP: torch/csrc/distributed/c10d/reducer.cpp.
"""

from autotune.model import CommunicationHook, ShardingStrategy, TrainingSettings
from autotune.space.memory.job import BFLOAT16_BYTES, FLOAT32_BYTES, MemoryJob
from autotune.space.memory.transformer import block_parameters, root_parameters

IMPLICIT_PREFETCH = 1
"""Groups that FSDP2 gathers ahead in backward when it isn't told how many."""


def gathered_bytes(job: MemoryJob, settings: TrainingSettings) -> int:
    """Unsharded parameters while the first blocks of backward run.

    The root's group stays gathered: FSDP2's default. Of the blocks: all, if they are kept after
    forward; else the group in use, those gathered ahead, and one flat buffer on its way.
    """
    if not settings.strategy.is_fsdp:
        return 0
    element = job.compute_bytes(settings)
    root = root_parameters(job.config) * element
    blocks = job.config.layers * block_parameters(job.config) * element
    group = min(blocks, group_parameters(job, settings) * element)
    if settings.reshard_after_forward is False or _keeps_between(settings):
        return root + blocks + group
    ahead = max(settings.forward_prefetch, settings.backward_prefetch, IMPLICIT_PREFETCH)
    opened = _resharded_bytes(job, settings, blocks) + (1 + ahead) * group
    return root + min(blocks, opened) + group


def _keeps_between(settings: TrainingSettings) -> bool:
    return settings.accumulation_steps > 1 and not settings.reshard_after_backward


def _resharded_bytes(job: MemoryJob, settings: TrainingSettings, blocks: int) -> int:
    """What stays of the blocks after forward when they are resharded to smaller groups."""
    size = settings.reshard_after_forward
    if isinstance(size, bool) or size is None or size >= job.shards(settings):
        return 0
    return blocks // size


def group_parameters(job: MemoryJob, settings: TrainingSettings) -> int:
    """Of the blocks that are gathered together."""
    return min(settings.blocks_per_group, job.config.layers) * block_parameters(job.config)


def accumulated_bytes(job: MemoryJob, settings: TrainingSettings) -> int:
    """Whole gradients that wait for the last micro-batch under FSDP."""
    if not settings.strategy.is_fsdp or settings.accumulation_steps == 1:
        return 0
    return job.config.parameters * job.reduce_bytes(settings)


def reduced_bytes(job: MemoryJob, settings: TrainingSettings) -> int:
    """Whole gradients at the end of backward, beside accumulated ones.

    The embedding is used at both ends, so that its gradient exists twice for a moment, and a third
    time where both are added to an accumulated one. FSDP adds the flat buffer of the group that is
    being reduced, and the root's own gradients.
    """
    root = root_parameters(job.config)
    embedding = job.config.vocabulary * job.config.width
    again = 0 if settings.accumulation_steps == 1 else embedding
    if not settings.strategy.is_fsdp:
        return (embedding + again) * FLOAT32_BYTES
    element, reduced = job.compute_bytes(settings), job.reduce_bytes(settings)
    group = group_parameters(job, settings)
    return (root + again) * element + max(root, group) * (element + reduced)


def bucket_bytes(job: MemoryJob, settings: TrainingSettings) -> int:
    """DDP's buckets, which are as large as all gradients, and its hook's copies.

    A compressing hook holds a half-size copy of a bucket; PowerSGD keeps the error of every
    gradient (powerSGD_hook.py: use_error_feedback).
    """
    if settings.strategy is not ShardingStrategy.DDP:
        return 0
    whole = job.config.parameters * FLOAT32_BYTES
    if settings.communication_hook is CommunicationHook.POWER_SGD:
        return 2 * whole
    if settings.communication_hook is CommunicationHook.NONE:
        return whole
    bucket = min(whole, (settings.bucket_cap_mb or 25) << 20)
    return whole + bucket // (FLOAT32_BYTES // BFLOAT16_BYTES)

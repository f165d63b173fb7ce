"""Lays a workload out over the ranks: DDP, or FSDP2 on a mesh of one or two dimensions."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from autotune.model import ActivationCheckpointing, ShardingStrategy, TrainingSettings
from autotune.trainers.ddp import replicate
from autotune.trainers.fsdp import shard
from autotune.trainers.layers import Layers


def parallelize(layers: Layers, settings: TrainingSettings, device: torch.device) -> nn.Module:
    """The model, wrapped. FSDP2 wraps in place, DDP returns a module around it.

    Raises FieldError for settings that this number of ranks can't have.
    """
    checkpoint_blocks(layers.blocks, settings.activation_checkpointing)
    if settings.compile:
        for block in layers.blocks:
            block.compile()
    if settings.strategy is ShardingStrategy.DDP:
        return replicate(layers.model, settings, device)
    return shard(layers, settings, device)


def checkpoint_blocks(blocks: Sequence[nn.Module], which: ActivationCheckpointing) -> None:
    """Have the blocks that `which` names recompute their activations in backward."""
    if which is ActivationCheckpointing.NONE:
        return
    stride = 1 if which is ActivationCheckpointing.EVERY_BLOCK else 2
    for block in blocks[::stride]:
        block.forward = Checkpointed(block.forward)


class Checkpointed:
    """A block's forward that keeps nothing but its inputs.

    It takes the place of the method, so that neither the module tree nor parameter names change.
    """

    def __init__(self, forward: Callable[..., torch.Tensor]) -> None:
        self._forward = forward

    def __call__(self, *arguments: object, **options: object) -> object:
        return checkpoint(partial(self._forward, **options), *arguments, use_reentrant=False)

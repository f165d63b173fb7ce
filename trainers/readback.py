"""What really runs, read from the running objects and not from the request."""

import os
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

from autotune.model import ActivationCheckpointing, KnobValue
from autotune.trainers import flight
from autotune.trainers.collectives import Collectives
from autotune.trainers.ddp import effective_ddp
from autotune.trainers.fsdp import effective_fsdp, effective_policy
from autotune.trainers.parallelize import Checkpointed
from autotune.trainers.step import Trainer

PREFIXES = ("NCCL_", "TORCH_NCCL_", "FI_", "OFI_", "GLOO_")
"""Of the variables that decide how collectives run."""


def effective(trainer: Trainer, collectives: Collectives) -> dict[str, KnobValue]:
    """The settings in force, named as in TrainingSettings where they are there, and more."""
    return {
        **_wrapper(trainer.model),
        **_resharding(trainer),
        "micro_batch": trainer.samples_done // trainer.micro_batches_done,
        "accumulation_steps": trainer.micro_batches_done // trainer.steps_done,
        **_blocks(trainer),
        **_precision(trainer),
        "backend": dist.get_backend(),
        "threads": torch.get_num_threads(),
        "cores": len(os.sched_getaffinity(0)),
        **_per_step(collectives),
        **_variables(os.environ),
    }


def parameters(model: nn.Module) -> int:
    """Elements of the whole model, sharded or not."""
    return sum(parameter.numel() for parameter in model.parameters())


def _wrapper(model: nn.Module) -> dict[str, KnobValue]:
    if isinstance(model, FSDPModule) and isinstance(model, nn.Module):
        return effective_fsdp(model)
    if isinstance(model, DistributedDataParallel):
        return effective_ddp(model)
    raise TypeError(f"the model is wrapped by neither DDP nor FSDP2: {type(model).__name__}")


def _resharding(trainer: Trainer) -> dict[str, KnobValue]:
    seen = trainer.reshards_after_backward
    return {} if seen is None else {"reshard_after_backward": seen}


def _blocks(trainer: Trainer) -> dict[str, KnobValue]:
    blocks = trainer.workload.blocks
    count = sum(isinstance(block.forward, Checkpointed) for block in blocks)
    which = ActivationCheckpointing.EVERY_SECOND_BLOCK
    if count == 0:
        which = ActivationCheckpointing.NONE
    elif count == len(blocks):
        which = ActivationCheckpointing.EVERY_BLOCK
    compiled = [getattr(block, "_compiled_call_impl", None) is not None for block in blocks]
    return {
        "activation_checkpointing": which.value,
        "checkpointed_blocks": count,
        "compile": bool(compiled) and all(compiled),
    }


def _precision(trainer: Trainer) -> dict[str, KnobValue]:
    """Types of the stored parameters, of the computation, and of the gradients on the wire."""
    stored = next(trainer.model.parameters()).dtype
    compute, reduce = trainer.accumulation.autocast_dtype or stored, stored
    if isinstance(trainer.model, FSDPModule):
        policy = effective_policy(trainer.model)
        compute = policy.param_dtype or stored
        # FSDP2 reduces in the type it computes in unless told otherwise.
        reduce = policy.reduce_dtype or compute
    return {
        "parameter_dtype": _name(stored),
        "compute_dtype": _name(compute),
        "reduce_dtype": _name(reduce),
    }


def _per_step(collectives: Collectives) -> dict[str, KnobValue]:
    """Of one optimizer step on rank 0: `collective.all_reduce` calls and their bytes."""
    found: dict[str, KnobValue] = {}
    for name, calls in sorted(collectives.calls.items()):
        found[f"collective.{name}"] = calls
        found[f"collective.{name}_bytes"] = collectives.largest_bytes[name]
    return found


def _variables(environment: Mapping[str, str]) -> dict[str, KnobValue]:
    return {
        f"env.{name}": value
        for name, value in sorted(environment.items())
        if name.startswith(PREFIXES) and name not in flight.VARIABLES
    }


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")

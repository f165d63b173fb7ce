"""What is really in effect in a script, read from its objects when it has been measured."""

import gc
import os

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

from autotune.model import DeviceKind, KnobValue
from autotune.trainers import readback
from autotune.trainers.ddp import effective_ddp
from autotune.trainers.fsdp import effective_fsdp
from autotune.trainers.script.session import Session


def wrapped_model() -> nn.Module | None:
    """The largest module that DDP or FSDP2 has wrapped; None without one."""
    kinds = (DistributedDataParallel, FSDPModule)
    found = [one for one in gc.get_objects() if issubclass(type(one), kinds)]
    return max(found, key=lambda model: sum(1 for _ in model.modules()), default=None)


def effective(session: Session, model: nn.Module | None) -> dict[str, KnobValue]:
    """The settings in force as far as they can be seen from outside."""
    found: dict[str, KnobValue] = {
        "threads": torch.get_num_threads(),
        "cores": len(os.sched_getaffinity(0)),
        "loss_source": session.loss_source,
        "samples_read": session.samples_told or session.meter.read,
    }
    return found | _layout(model) | _batch(session)


def parameters(session: Session, model: nn.Module | None) -> int:
    """Elements of the model, or of what is optimized where no wrapped model is found."""
    if model is not None:
        return readback.parameters(model)
    groups = session.optimizer.param_groups if session.optimizer else []
    return sum(one.numel() for group in groups for one in group["params"])


def _layout(model: nn.Module | None) -> dict[str, KnobValue]:
    if isinstance(model, DistributedDataParallel):
        return effective_ddp(model)
    return {} if model is None else effective_fsdp(model)


def _batch(session: Session) -> dict[str, KnobValue]:
    """Micro-batch and accumulation, where batches read and backward passes tell the same."""
    step = session.counts.usual()
    asked = session.spec.settings.global_batch(session.ranks)
    if not step.reads or step.reads != step.backwards or session.meter.read != asked:
        return {}
    if step.samples % step.reads:
        return {}
    return {"accumulation_steps": step.reads, "micro_batch": step.samples // step.reads}


def device_of(kind: DeviceKind) -> torch.device:
    """What the script computes on."""
    return torch.device("cpu") if kind is DeviceKind.CPU else torch.device("cuda")

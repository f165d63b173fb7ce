"""DistributedDataParallel with the settings that are its own."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from autotune.model import CommunicationHook, KnobValue, ShardingStrategy, TrainingSettings

POWER_SGD_START = 2
"""Optimizer steps before PowerSGD compresses. PyTorch's default, 1000, is longer than a trial; 2 is
the least that it allows with error feedback."""
_HOOKS: dict[CommunicationHook, Callable[..., Any]] = {
    CommunicationHook.BF16: default_hooks.bf16_compress_hook,
    CommunicationHook.FP16: default_hooks.fp16_compress_hook,
    CommunicationHook.POWER_SGD: powerSGD_hook.powerSGD_hook,
}


def replicate(
    model: nn.Module, settings: TrainingSettings, device: torch.device
) -> DistributedDataParallel:
    """`model` with its gradients all-reduced."""
    options: dict[str, Any] = {}
    if settings.bucket_cap_mb is not None:
        # Left out: PyTorch treats its default unlike the same number given (first bucket 1 MiB).
        options["bucket_cap_mb"] = settings.bucket_cap_mb
    wrapped = DistributedDataParallel(
        model,
        device_ids=[device] if device.type == "cuda" else None,
        gradient_as_bucket_view=settings.gradient_as_bucket_view,
        static_graph=settings.static_graph,
        **options,
    )
    if settings.communication_hook is not CommunicationHook.NONE:
        hook = _HOOKS[settings.communication_hook]
        if device.type == "cpu":
            hook = _one_bucket_at_a_time(hook)
        wrapped.register_comm_hook(_state(settings.communication_hook), hook)
    return wrapped


def hook_in_force(model: DistributedDataParallel) -> CommunicationHook:
    """The hook that is registered with `model`."""
    registered = {inspect.unwrap(hook) for hook, _ in getattr(model, "_comm_hooks", [])}
    found = [name for name, hook in _HOOKS.items() if hook in registered]
    return found[0] if found else CommunicationHook.NONE


def effective_ddp(model: DistributedDataParallel) -> dict[str, KnobValue]:
    """The settings in force, read from the wrapper."""
    found: dict[str, KnobValue] = {
        "strategy": ShardingStrategy.DDP.value,
        "bucket_cap_mb": model.bucket_bytes_cap // (1 << 20),
        "gradient_as_bucket_view": model.gradient_as_bucket_view,
        "static_graph": model.static_graph,
        "communication_hook": hook_in_force(model).value,
    }
    # Sizes in bytes, "4096, 1024"; DDP lays its buckets out anew after the first step.
    data = model._get_ddp_logging_data()  # type: ignore[no-untyped-call]
    sizes = str(data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes") or "")
    if sizes:
        found |= {"bucket_sizes": sizes, "buckets": len(sizes.split(","))}
    return found


def _one_bucket_at_a_time(hook: Callable[..., Any]) -> Callable[..., Any]:
    """`hook`, done before the next bucket's begins.

    PowerSGD's later collectives start from callbacks. On CUDA these keep the stream's order; on
    Gloo's threads they don't, so that ranks would pair collectives of different buckets.
    """

    @functools.wraps(hook)
    def in_turn(state: object, bucket: object) -> torch.futures.Future[torch.Tensor]:
        result = hook(state, bucket).wait()
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(result)
        return done

    return in_turn


def _state(hook: CommunicationHook) -> object:
    group = dist.group.WORLD
    if hook is CommunicationHook.POWER_SGD:
        return powerSGD_hook.PowerSGDState(group, start_powerSGD_iter=POWER_SGD_START)
    return group

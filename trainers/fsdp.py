"""FSDP2 with the settings that are its own."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from autotune.errors import FieldError
from autotune.model import KnobValue, ShardingStrategy, TrainingSettings
from autotune.trainers.layers import Layers
from autotune.trainers.precision import compute_dtype, reduce_dtype


def shard(layers: Layers, settings: TrainingSettings, device: torch.device) -> nn.Module:
    """The model, sharded in place, group by group."""
    mesh = device_mesh(settings, device)
    compute = compute_dtype(settings, device)
    precision = MixedPrecisionPolicy(
        param_dtype=None if compute == torch.float32 else compute,
        reduce_dtype=reduce_dtype(settings),
    )
    groups = _groups(layers.blocks, settings.blocks_per_group)
    for group in groups:
        # One block alone and a list of one are not the same to FSDP2's hooks.
        target: Any = group[0] if len(group) == 1 else group
        fully_shard(
            target,
            mesh=mesh,
            reshard_after_forward=settings.reshard_after_forward,
            mp_policy=precision,
        )
    # The root's parameters are needed again first thing in backward; PyTorch's default keeps them.
    reshard_root = None if groups else settings.reshard_after_forward
    fully_shard(layers.model, mesh=mesh, mp_policy=precision, reshard_after_forward=reshard_root)
    _prefetch([_fsdp(group[0]) for group in groups], settings)
    for module in fsdp_modules(layers.model):
        module.set_force_sum_reduction_for_comms(settings.force_sum_reduction)
    return layers.model


def device_mesh(settings: TrainingSettings, device: torch.device) -> DeviceMesh:
    """All ranks in a row, or in groups of `shard_size` for hybrid."""
    ranks = dist.get_world_size()
    if settings.shard_size is None:
        return init_device_mesh(device.type, (ranks,), mesh_dim_names=("shard",))
    if ranks % settings.shard_size:
        raise FieldError(
            "shard_size", settings.shard_size, f"doesn't divide the number of ranks, {ranks}"
        )
    shape = (ranks // settings.shard_size, settings.shard_size)
    return init_device_mesh(device.type, shape, mesh_dim_names=("replicate", "shard"))


def fsdp_modules(model: nn.Module) -> list[FSDPModule]:
    """The modules in `model` that hold an FSDP group, the root first."""
    found: dict[int, FSDPModule] = {}
    for module in model.modules():
        if isinstance(module, FSDPModule):
            # The blocks of a group share one state.
            found.setdefault(id(module._get_fsdp_state()), module)
    return list(found.values())


def effective_fsdp(model: nn.Module) -> dict[str, KnobValue]:
    """The settings in force, read from FSDP2's own objects.

    Much of it PyTorch shows nowhere in public; what a version doesn't have is left out.
    """
    modules = fsdp_modules(model)
    shape = _mesh_shape(model)
    found: dict[str, KnobValue] = {
        "fsdp_modules": len(modules),
        "mesh_shape": "x".join(str(size) for size in shape),
    }
    # The root comes first and has defaults of its own; a block shows what was asked for.
    group = _parameter_group(modules[-1])
    reshard = None if group is None else _reshard(group)
    if reshard is not None:
        found["reshard_after_forward"] = reshard
    if len(shape) > 1:
        found["strategy"] = ShardingStrategy.HYBRID.value
        found["shard_size"] = shape[-1]
    elif reshard is not None:
        strategy = ShardingStrategy.FSDP_GRAD_OP if reshard is False else ShardingStrategy.FSDP_FULL
        found["strategy"] = strategy.value
    return found | _effective_communication(modules)


def _effective_communication(modules: Sequence[FSDPModule]) -> dict[str, KnobValue]:
    states = [module._get_fsdp_state() for module in modules]
    blocks = [len(state._modules) for state in states[1:]]
    forward = [len(getattr(state, "_states_to_forward_prefetch", ())) for state in states]
    backward = [len(getattr(state, "_states_to_backward_prefetch", ())) for state in states]
    found: dict[str, KnobValue] = {
        "blocks_per_group": max(blocks, default=1),
        "forward_prefetch": max(forward),
        "backward_prefetch": max(backward),
    }
    forced = getattr(_parameter_group(modules[0]), "force_sum_reduction_for_comms", None)
    if isinstance(forced, bool):
        found["force_sum_reduction"] = forced
    return found


def effective_policy(model: FSDPModule) -> MixedPrecisionPolicy:
    """The formats that FSDP2 casts to."""
    group = _parameter_group(model)
    return MixedPrecisionPolicy() if group is None else group.mp_policy


def _mesh_shape(model: nn.Module) -> tuple[int, ...]:
    for parameter in model.parameters():
        if isinstance(parameter, DTensor):
            return tuple(parameter.device_mesh.shape)
    return ()


def _parameter_group(module: FSDPModule) -> Any:
    """The private object that FSDP2 keeps for a wrapped module, or None."""
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)
    return groups[0] if groups else getattr(state, "_fsdp_param_group", None)


def _reshard(group: Any) -> bool | int | None:
    after = getattr(group, "post_forward_mesh_info", None)
    if after is None:
        return False
    return True if after == group.mesh_info else int(after.shard_mesh_size)


def _groups(blocks: Sequence[nn.Module], size: int) -> list[list[nn.Module]]:
    return [list(blocks[first : first + size]) for first in range(0, len(blocks), size)]


def _prefetch(groups: Sequence[FSDPModule], settings: TrainingSettings) -> None:
    """Have each group gather the next ones, in forward's and in backward's order."""
    ahead, back = settings.forward_prefetch, settings.backward_prefetch
    for index, group in enumerate(groups):
        if ahead:
            group.set_modules_to_forward_prefetch(list(groups[index + 1 : index + 1 + ahead]))
        if back:
            before = groups[max(0, index - back) : index]
            group.set_modules_to_backward_prefetch(list(reversed(before)))


def _fsdp(module: nn.Module) -> FSDPModule:
    if not isinstance(module, FSDPModule):
        raise TypeError(f"fully_shard left a {type(module).__name__} as it was")
    return module

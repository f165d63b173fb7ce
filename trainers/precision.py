"""Which floating-point formats a trial computes and reduces in."""

from dataclasses import replace

import torch

from autotune.model import BFLOAT16_FROM, Dtype, TrainingSettings

_TYPES = {Dtype.FLOAT32: torch.float32, Dtype.BFLOAT16: torch.bfloat16}


def compute_dtype(settings: TrainingSettings, device: torch.device) -> torch.dtype:
    """The format of matrix products: bfloat16 where a GPU has it, else float32, unless asked."""
    default = torch.bfloat16 if _has_bfloat16(device) else torch.float32
    return _TYPES.get(settings.compute_dtype, default)


def with_own_dtype(settings: TrainingSettings, dtype: torch.dtype | None) -> TrainingSettings:
    """`settings` with the workload's own format of matrix products where they name none."""
    if dtype is None or settings.compute_dtype is not Dtype.DEFAULT:
        return settings
    named = {torch_type: name for name, torch_type in _TYPES.items()}
    return replace(settings, compute_dtype=named[dtype])


def _has_bfloat16(device: torch.device) -> bool:
    """In hardware: torch.cuda.is_bf16_supported is also true where it is emulated, and slow."""
    if device.type != "cuda":
        return False
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor >= BFLOAT16_FROM


def reduce_dtype(settings: TrainingSettings) -> torch.dtype:
    """The format in which FSDP2 reduces gradients: float32 unless asked otherwise."""
    return _TYPES.get(settings.reduce_dtype, torch.float32)

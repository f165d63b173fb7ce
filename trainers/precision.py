"""Which floating-point formats a trial computes and reduces in."""

import torch

from autotune.model import Dtype, TrainingSettings

_TYPES = {Dtype.FLOAT32: torch.float32, Dtype.BFLOAT16: torch.bfloat16}


def compute_dtype(settings: TrainingSettings, device: torch.device) -> torch.dtype:
    """The format of matrix products: bfloat16 on CUDA and float32 on CPU unless asked otherwise."""
    default = torch.bfloat16 if device.type == "cuda" else torch.float32
    return _TYPES.get(settings.compute_dtype, default)


def reduce_dtype(settings: TrainingSettings) -> torch.dtype:
    """The format in which FSDP2 reduces gradients: float32 unless asked otherwise."""
    return _TYPES.get(settings.reduce_dtype, torch.float32)

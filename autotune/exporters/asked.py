"""What a configuration asks for beyond the frameworks' defaults."""

from dataclasses import MISSING, fields

from autotune.exporters.text import shown
from autotune.model import (
    BFLOAT16_FROM,
    BestConfiguration,
    DeviceKind,
    Dtype,
    TrainingSettings,
    encode,
)
from autotune.space.gpus import compute_capability

ENVIRONMENT = "environment"
ALWAYS = ("strategy", "micro_batch", "accumulation_steps")
"""Settings that are asked for whatever their value."""


def asked(best: BestConfiguration) -> dict[str, str]:
    """Settings with their values as text: those that aren't what happens anyway."""
    values = encode(best.settings)
    return {
        field.name: shown(values[field.name])
        for field in fields(TrainingSettings)
        if field.name in ALWAYS
        or (field.name not in best.settings.foreign and not _is_default(field.name, best.settings))
    }


def computes_in(best: BestConfiguration) -> Dtype:
    """The format of matrix products, which `default` leaves to the device."""
    settings, seen = best.settings, best.evidence.fingerprint
    if settings.compute_dtype is not Dtype.DEFAULT:
        return settings.compute_dtype
    if seen is not None and seen.compute_dtype in (Dtype.FLOAT32, Dtype.BFLOAT16):
        return Dtype(seen.compute_dtype)
    gpu = best.versions.get("gpu", "")
    is_new = best.evidence.device is DeviceKind.CUDA and compute_capability(gpu) >= BFLOAT16_FROM
    return Dtype.BFLOAT16 if is_new else Dtype.FLOAT32


def reduces_in(best: BestConfiguration) -> Dtype:
    """The format in which FSDP reduces gradients."""
    dtype = best.settings.reduce_dtype
    return Dtype.FLOAT32 if dtype is Dtype.DEFAULT else dtype


def _is_default(name: str, settings: TrainingSettings) -> bool:
    value = getattr(settings, name)
    if name == "reshard_after_forward":
        # Said by the strategy, unless it is a number of ranks.
        return isinstance(value, bool) and settings.shard_size is None
    default = next(f.default for f in fields(TrainingSettings) if f.name == name)
    return default is not MISSING and bool(value == default)

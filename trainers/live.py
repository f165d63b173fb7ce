"""Has a rank that has finished a trial run another one: nothing of the first may be left by then.

Asked for with AUTOTUNE_LIVE. What lasts is the process, its CUDA context and its default process
group, which are what a launch on GPUs costs. What can't be taken back ends with its process, as
ever: groups of ranks, compiled code, an environment.
"""

import ctypes
import gc
import os
import sys
import weakref
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from autotune.model import TrialSpec
from autotune.trainers import process
from autotune.trainers.channel import Channel
from autotune.trainers.measure import gather

VARIABLE = "AUTOTUNE_LIVE"
MOST_LEFT_BYTES = 64 * 2**20
"""Of device memory: the text, and cuBLAS's workspace, have 36 MiB on an H100 (CUDA 12)."""


@dataclass(frozen=True, kw_only=True)
class Following:
    """The trial that comes next."""

    spec_path: str
    began_s: float
    """When it was asked for, by `process.now_s`."""


def may_stay(spec: TrialSpec) -> bool:
    """Whether the process may go on after this trial: it was asked to, and nothing speaks against.

    A hybrid mesh has groups of its own, which Gloo and NCCL free at their peril; of compiled code
    nobody knows what it keeps.
    """
    settings = spec.settings
    return VARIABLE in os.environ and settings.shard_size is None and not settings.compile


class Relay:
    """Leads from one trial of this process to the next. Made before the first one."""

    def __init__(self, rank: int, channel: Channel, device: torch.device) -> None:
        self._rank = rank
        self._channel = channel
        self._device = device
        self._environment = dict(os.environ)

    def next(self, model: weakref.ref[nn.Module]) -> Following | None:
        """Take away what is left of a trial and wait for the next one; None if there is none.

        A collective call: either all ranks go on or none. `model` is what was trained, which nobody
        may hold any more.
        """
        left = what_is_left(model, self._device)
        if left:
            sys.stderr.write(f"autotune: no other trial runs in this process: {left}\n")
        if gather(torch.tensor([bool(left)], device=self._device)).any():
            return None
        message = self._channel.following(self._rank)
        if message is None:
            return None
        began_s = process.now_s()
        open_log(Path(message.log))
        os.environ.clear()
        os.environ.update(self._environment)
        if self._device.type == "cpu":
            process.forget_peak_memory()
        return Following(spec_path=message.spec, began_s=began_s)


def what_is_left(model: weakref.ref[nn.Module], device: torch.device) -> str:
    """Clear away; a clause on what couldn't be freed, or empty.

    Whatever goes wrong here goes wrong after a trial that has its result.
    """
    try:
        return _clear_away(model, device)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _clear_away(model: weakref.ref[nn.Module], device: torch.device) -> str:
    gc.collect()
    if model() is not None:
        return "something still holds the model"
    if device.type == "cpu":
        _give_memory_back()
        return ""
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    torch.cuda.reset_accumulated_memory_stats(device)
    left = torch.cuda.memory_allocated(device)
    return f"{left} bytes of {device} are still in use" if left > MOST_LEFT_BYTES else ""


def open_log(path: Path) -> None:
    """From here on, what this process prints goes to `path`."""
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _give_memory_back() -> None:
    """Have the C library return what was freed, which a fresh process wouldn't have."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc has it
        trim(0)

"""A configuration's variables, set in the running process while that still has an effect."""

import os
from pathlib import Path

import torch
import torch.distributed as dist

from autotune.apply.misfits import warn
from autotune.errors import UserError
from autotune.executors.host_limits import usable_cores
from autotune.model import BestConfiguration

_THREADS = "OMP_NUM_THREADS"


def apply_environment(best: BestConfiguration) -> None:
    """Set the variables of `best`, and as many threads as its trials had.

    Raises UserError, and changes nothing, if a variable would come too late. One that the
    environment has with another value is replaced, with a warning.
    """
    wanted = dict(best.environment)
    changed = {name: value for name, value in wanted.items() if os.environ.get(name) != value}
    late = {name for name in changed if name != _THREADS}
    if late and (cause := _too_late()):
        raise UserError(
            f"apply_env: too late, {cause}: {', '.join(sorted(late))} would not be read any more",
            hint="call apply_env() first in the script, or start it with what "
            "`autotune export FILE --to env` gives",
        )
    for name, value in changed.items():
        if name in os.environ and not _is_launchers(name):
            warn(f"{name}={os.environ[name]} in the environment: replaced by {value}")
        os.environ[name] = value
    _set_threads(wanted.get(_THREADS))


def _too_late() -> str:
    """Why variables aren't read any more, as a clause; empty as long as they are."""
    if dist.is_available() and dist.is_initialized():
        return "torch.distributed is initialized"
    has_cuda: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return "CUDA is initialized" if has_cuda else ""


def _set_threads(asked: str | None) -> None:
    """OpenMP has read its variable when torch was imported, so it is told."""
    if asked is None and not _is_launchers(_THREADS):
        return
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    count = int(asked) if asked and asked.isdecimal() else max(1, usable_cores(Path("/")) // ranks)
    os.environ[_THREADS] = str(count)
    torch.set_num_threads(count)


def _is_launchers(name: str) -> bool:
    """Whether torchrun has set the variable: it gives ranks one thread, trials share the cores."""
    return name == _THREADS and os.environ.get(name) == "1" and "TORCHELASTIC_RUN_ID" in os.environ

"""What became of each variable that a candidate asks for: taken, refused or never read."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from autotune.errors import UserError
from autotune.model import KnobValue, decode, encode
from autotune.model.protocol import FailureKind
from autotune.trainers.failures import RankError
from autotune.trainers.nccl_log import NcclReadback, effective, merge, read_log

NOT_SEEN = "not seen"
TAKEN = "taken"
OVERRIDDEN = "overridden"
UNVERIFIED = "unverified"
"""Nothing shows whether anybody has read it."""

_NCCL_READERS = ("NCCL_", "FI_", "OFI_")
_SUBSYSTEMS = "INIT,ENV,GRAPH,TUNING,NET"


def start_nccl_log(folder: Path) -> Path | None:
    """Have NCCL write a log of its own for this process, to be read back at the end.

    Before NCCL starts, which reads these variables once. None, and nothing changed, if the user
    already has NCCL write one.
    """
    if "NCCL_DEBUG" in os.environ or "NCCL_DEBUG_FILE" in os.environ:
        return None
    path = folder / f"nccl-{os.getpid()}.log"
    os.environ["NCCL_DEBUG"] = "INFO"
    os.environ["NCCL_DEBUG_SUBSYS"] = _SUBSYSTEMS
    os.environ["NCCL_DEBUG_FILE"] = str(path).replace("%", "%%")
    return path


def log_size(path: Path | None) -> int:
    """Where what NCCL logs from now on begins, in bytes."""
    try:
        return path.stat().st_size if path is not None else 0
    except OSError:
        return 0


def rank_readback(path: Path, start: int) -> NcclReadback:
    """What this process's NCCL did; its choices are those logged from byte `start` on.

    What comes before them holds for all trials of a process. Raises UserError for what is no file.
    """
    whole = read_log(path)
    return replace(whole, choices=read_log(path, start=start).choices) if start else whole


def read_nccl_log(path: Path | None, start: int = 0) -> tuple[NcclReadback, tuple[str, ...]] | None:
    """What all ranks' NCCL did, merged, and how ranks differ; None if any has no log.

    A collective call. The logs are small enough once parsed to be sent around as text.
    """
    everyone: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, own_readback(path, start))
    return merged_readback(everyone)


def own_readback(path: Path | None, start: int = 0) -> object:
    """What this rank has for `merged_readback`; None if its NCCL has no log."""
    if path is not None:
        with suppress(UserError):
            return encode(rank_readback(path, start))
    return None


def merged_readback(everyone: Sequence[object]) -> tuple[NcclReadback, tuple[str, ...]] | None:
    """What all ranks' NCCL did, and how ranks differ; None if any has no log."""
    if any(one is None for one in everyone):
        return None
    merged = merge([decode(NcclReadback, one) for one in everyone])
    return merged.readback, tuple(str(difference) for difference in merged.differences)


def agreed(merged: tuple[NcclReadback, tuple[str, ...]] | None) -> NcclReadback | None:
    """What all ranks' NCCL did alike; None if nobody knows. Raises RankError if ranks differ."""
    if merged is None:
        return None
    log, differences = merged
    if differences:
        raise RankError(
            FailureKind.ENVIRONMENT, f"NCCL runs differently on the ranks: {differences[0]}"
        )
    return log


def uptake(
    environment: Mapping[str, str], readback: NcclReadback | None, *, uses_nccl: bool
) -> dict[str, KnobValue]:
    """`uptake.NAME` for each variable of the candidate."""
    found: dict[str, KnobValue] = {}
    effects = {} if readback is None else effective(readback, environment)
    for name, value in environment.items():
        if name in effects:
            found[f"uptake.{name}"] = effects[name].uptake.value
        elif name == "OMP_NUM_THREADS":
            is_taken = str(torch.get_num_threads()) == value
            found[f"uptake.{name}"] = TAKEN if is_taken else OVERRIDDEN
        elif name.startswith(_NCCL_READERS) and not uses_nccl:
            # Gloo reads none of them.
            found[f"uptake.{name}"] = NOT_SEEN
        else:
            found[f"uptake.{name}"] = UNVERIFIED
    return found


def nccl_facts(readback: NcclReadback) -> dict[str, KnobValue]:
    """What a person wants to know of NCCL's own choices."""
    world = readback.world
    found: dict[str, KnobValue] = {
        "nccl.network": readback.network,
        "nccl.fallback": readback.fallback,
        "nccl.plugin": readback.plugin,
        "nccl.forced_simple": bool(readback.forced_simple),
        "nccl.log_truncated": readback.truncated,
    }
    if world is not None and world.coll_channels is not None:
        found["nccl.channels"] = world.coll_channels
    for name, value in readback.injected.items():
        found[f"injected.{name}"] = value
    for choice in readback.choices:
        key = f"nccl.{choice.collective}.{choice.size_bytes}"
        found[key] = f"{choice.algorithm}/{choice.protocol}"
    return {name: value for name, value in found.items() if value != ""}

"""Asks the ranks of a trial that hangs what they are at, while they still live."""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from autotune.executors.channel import Channels
from autotune.executors.log_tail import log_end
from autotune.executors.rank_process import Rank
from autotune.executors.standing import Standing, read_flight, read_stack

LIMIT_S = 2.0
"""For the ranks to write where they are: a matter of milliseconds, if they can at all."""
_POLL_S = 0.05
_MOST_BYTES = 16 * 2**20
_STACKS_SIGNAL = signal.SIGUSR1
"""Ranks write the stacks of all their threads to their log on it (docs/trial_protocol.md)."""


def inspect(ranks: Sequence[Rank], channels: Channels) -> tuple[Standing, ...]:
    """What the living ones of `ranks` are at, as far as they say; takes up to 2 seconds."""
    living = [rank for rank in ranks if rank.exit_status() is None]
    sizes = {rank.rank: _size(rank.log_path) for rank in living}
    for rank in living:
        channels.ask_where(rank.rank)
        _ask_for_stacks(rank.pid)
    deadline = time.monotonic() + LIMIT_S
    standings = _look(living, sizes)
    while not all(map(_is_complete, standings)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        standings = _look(living, sizes)
    return standings


def _look(ranks: Sequence[Rank], sizes: dict[int, int]) -> tuple[Standing, ...]:
    return tuple(_standing(rank, sizes[rank.rank]) for rank in ranks)


def _standing(rank: Rank, size: int) -> Standing:
    said = Standing(rank=rank.rank, state=_state(rank.pid))
    grown = max(0, _size(rank.log_path) - size)
    flight = rank.log_path.with_name(f"flight-{rank.rank}.json")
    called, last_call = read_flight(log_end(flight, _MOST_BYTES))
    return replace(
        said,
        frames=read_stack(log_end(rank.log_path, min(grown, _MOST_BYTES))),
        called=called,
        last_call=last_call,
    )


def _is_complete(standing: Standing) -> bool:
    return standing.is_held or bool(standing.frames and standing.called)


def _ask_for_stacks(pid: int) -> None:
    """Only a program that expects the signal gets it: others would die of it."""
    with suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        if caught >> (_STACKS_SIGNAL - 1) & 1:
            os.kill(pid, _STACKS_SIGNAL)


def _state(pid: int) -> str:
    """The letter of proc_pid_stat(5); empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

"""Who works on a run: one controller at a time, by a lease in the store that ends by itself."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import LeaseLostError

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A process that works on a run."""

    token: str
    """Random and its own: what the process shows when it writes."""
    host: str
    pid: int
    boot: str = ""
    """Of the kernel it runs on; with `pid_namespace` it says where `pid` means something."""
    pid_namespace: str = ""
    started: int = 0
    """Clock ticks from the kernel's start to the process's: a pid is given again."""

    def describe(self) -> str:
        return f"pid {self.pid} on {self.host}"


@dataclass(frozen=True, kw_only=True)
class Lease:
    """A run's lease as it stood when it was read."""

    run_id: str
    owner: Owner
    left_s: float
    """Seconds to its end by the store's clock; below 0 it has ended."""


def lost(database: str, run_id: str) -> LeaseLostError:
    """The error of a writer whose lease is another one's now."""
    return LeaseLostError(
        f"{database}: another process took over run {run_id!r}, so this one writes no more",
        hint=f"it wasn't heard of for too long; follow the other one with: autotune show {run_id}",
    )


def machine_clock() -> tuple[str, float]:
    """The clock of a store that one machine has: its name, and the seconds since that boot.

    Nobody sets it, unlike the time of day, and it goes on while the machine is suspended.
    """
    return boot_id(), time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Names the kernel that runs since its start, alike in all containers on it."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return os.uname().nodename

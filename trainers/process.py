"""What a rank knows of its own process (Linux)."""

import ctypes
import os
import signal
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""


def die_with_parent() -> None:
    """Have the kernel SIGKILL this process when the thread that launched it is gone."""
    _on_parent_death(signal.SIGKILL)


def outlive_parent_thread() -> None:
    """Take `die_with_parent` back."""
    _on_parent_death(0)


def _on_parent_death(number: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")


def seconds_since_start() -> float:
    """Age of this process, to the kernel's clock tick (10 ms); for a forked one since its fork."""
    start_s = start_ticks(os.getpid()) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - start_s


def start_ticks(pid: int) -> int:
    """When `pid` was started, in clock ticks since boot: with its number, it names a process."""
    # The command's name, in parentheses, may itself hold spaces and parentheses.
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def peak_resident_bytes() -> int:
    """The largest resident set that this process has had.

    Not getrusage's ru_maxrss: that one is inherited by a forked child.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmHWM")

"""What a rank knows of its own process (Linux)."""

import ctypes
import os
import re
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""From linux/prctl.h."""
_SIZE = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


def die_with_parent() -> None:
    """Have the kernel SIGKILL this process when the thread that launched it is gone."""
    _on_parent_death(signal.SIGKILL)


def outlive_parent_thread() -> None:
    """Take `die_with_parent` back."""
    _on_parent_death(0)


def adopt_orphans() -> None:
    """Have descendants whose parents die become children of this process, whatever they did."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """Of any of this process's threads, zombies too; empty on a kernel that doesn't tell."""
    found: list[int] = []
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            found += [int(pid) for pid in file.read_text().split()]
    return found


def _on_parent_death(number: int) -> None:
    _prctl(PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def started_s() -> float:
    """When this process was started, by `now_s`, to the kernel's clock tick (10 ms).

    For a forked one: when it was forked.
    """
    return start_ticks(os.getpid()) / os.sysconf("SC_CLK_TCK")


def now_s() -> float:
    """Seconds since boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def start_ticks(pid: int) -> int:
    """When `pid` was started, in clock ticks since boot: with its number, it names a process."""
    # The command's name, in parentheses, may itself hold spaces and parentheses.
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def forget_peak_memory() -> None:
    """Have the peak be counted from now on. Form of the file: proc(5), clear_refs."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_memory_bytes() -> int:
    """The most memory that this process has had for itself: its resident set without files' pages.

    Pages of files are libraries: all processes share them, and the kernel takes them back rather
    than run out of memory. How many of them a process has mapped depends on whether it was forked,
    and nothing else of the peak does. Pages shared with a parent that forked it are counted:
    either may write to them at any time, and then they are two.

    The kernel keeps the peak of the whole set only (not getrusage's ru_maxrss, which a forked
    process inherits). Files' pages of now are taken off: a process that trains reads no new ones.
    """
    status = Path("/proc/self/status").read_text()
    sizes = {name: int(kib) * 1024 for name, kib in _SIZE.findall(status)}
    try:
        now = sizes["RssAnon"] + sizes["RssShmem"]
        return max(now, sizes["VmHWM"] - sizes["RssFile"])
    except KeyError as missing:
        raise OSError(f"/proc/self/status has no {missing.args[0]}") from None


def leave(code: int) -> NoReturn:
    """End the process here and now, while everything is still referenced.

    Gloo hangs, now and then and without a limit, when a group is freed whose peer is ending too.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

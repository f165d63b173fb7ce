"""What a trial has left behind: found, removed where it is certainly the trial's, and told."""

import time
from pathlib import Path

from autotune.executors.device_memory import DeviceMemory
from autotune.executors.family import Family
from autotune.executors.rank_process import Rank
from autotune.executors.scratch import Scratch
from autotune.executors.shared_memory import SharedMemory

_TABLE = Path("/proc/net/tcp")
CLOSE_S = 2.0
_POLL_S = 0.01
_LISTENS = "0A"
"""TCP_LISTEN of the kernel's enum of states, as this table has it."""


class Leftovers:
    """Of one trial. Made before it starts."""

    def __init__(self, scratch: Scratch, *, uses_gpus: bool) -> None:
        self._scratch = scratch
        self._shared_memory = SharedMemory()
        self._device_memory = DeviceMemory() if uses_gpus else None
        self._strays = 0

    def note(self, family: Family, ranks: list[Rank]) -> None:
        """Look at the trial's processes, before they are ended."""
        members = family.members(marked=True)
        self._shared_memory.note(members)
        if all(rank.exit_status() is not None for rank in ranks):
            # While a rank runs its children are its own; what outlives all ranks is left behind.
            self._strays = len(members)

    def clean(self, family: Family, port: int) -> str:
        """Remove what is left once all processes are gone; says what there was, or nothing."""
        clauses = []
        if self._strays:
            plural = "es" * (self._strays != 1)
            clauses.append(f"{self._strays} process{plural} that outlived the ranks, ended")
        clauses += self._shared_memory.clean(family.pids)
        if stays_listened_on(port):
            clauses.append(f"port {port} in use")
        if self._device_memory is not None:
            clauses += self._device_memory.wait_until_free()
        clauses += filter(None, [self._scratch.remove()])
        return "; ".join(clauses)


def stays_listened_on(port: int) -> bool:
    """Whether `port` isn't closed soon.

    A killed process counts as dead with its first thread; the kernel closes what it had open with
    its last one.
    """
    deadline = time.monotonic() + CLOSE_S
    while is_listened_on(port):
        if time.monotonic() > deadline:
            return True
        time.sleep(_POLL_S)
    return False


def is_listened_on(port: int) -> bool:
    """Whether a process of this machine listens on `port` (form of the table: proc_net_tcp)."""
    try:
        lines = _TABLE.read_text().splitlines()
    except OSError:
        return False
    rows = [line.split() for line in lines if f":{port:04X} " in line]
    return any(row[1].endswith(f":{port:04X}") and row[3] == _LISTENS for row in rows)

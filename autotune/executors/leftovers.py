"""What a trial has left behind: found, removed where it is certainly the trial's, and told."""

from pathlib import Path

from autotune.executors.device_memory import DeviceMemory
from autotune.executors.family import Family
from autotune.executors.rank_process import Rank
from autotune.executors.scratch import Scratch
from autotune.executors.shared_memory import SharedMemory

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
"""TCP_LISTEN of the kernel's enum of states, as these tables have it."""


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
        if is_listened_on(port):
            clauses.append(f"port {port} in use")
        if self._device_memory is not None:
            clauses += self._device_memory.wait_until_free()
        clauses += filter(None, [self._scratch.remove()])
        return "; ".join(clauses)


def is_listened_on(port: int) -> bool:
    """Whether a process of this machine listens on `port` (form of the tables: proc_net_tcp)."""
    return any(port in _listening(table) for table in _TABLES)


def _listening(table: Path) -> set[int]:
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return set()
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTENS}

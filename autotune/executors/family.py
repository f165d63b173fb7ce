"""The processes of one trial: its ranks, and whatever they have started, wherever it went."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass

_PF_KTHREAD = 0x00200000
"""From linux/sched.h."""


@dataclass(frozen=True)
class LivingProcess:
    """What the kernel tells about a process that is no zombie."""

    parent: int
    session: int
    started: int
    """In clock ticks since boot; with the pid, this names one process of all that there were."""
    is_kernels: bool
    """A thread of the kernel, of which there are thousands on large machines."""


def living_process(pid: int) -> LivingProcess | None:
    """None for a dead one. Form of the file: proc_pid_stat(5)."""
    stat = _read(pid, "stat")
    if not stat:
        return None
    # The name, in parentheses, may hold spaces and parentheses itself.
    fields = stat.rpartition(b")")[2].split()
    dead = fields[0] in (b"Z", b"X")
    if dead:
        return None
    is_kernels = bool(int(fields[6]) & _PF_KTHREAD)
    return LivingProcess(int(fields[1]), int(fields[3]), int(fields[19]), is_kernels)


def _read(pid: int, name: str) -> bytes:
    """A file of a process; empty if that is gone, or another user's.

    Without pathlib's detours: thousands are read after each trial.
    """
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.readall()
    except OSError:
        return b""


def environment_of(pid: int) -> list[bytes]:
    """As `NAME=value`; empty for a process that is gone, or another user's."""
    return _read(pid, "environ").split(b"\0")


def living_processes() -> dict[int, LivingProcess]:
    """All of this machine that are no zombies, whoever forgot to reap those."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    found = {pid: living_process(pid) for pid in pids}
    return {pid: process for pid, process in found.items() if process}


class Family:
    """Finds a trial's processes by numbers that are certainly theirs, never by their names.

    They are in the ranks' sessions, descend from a process that is, have fallen to the process
    that forks ranks when their parents died, or carry the trial's mark in their environment: a
    process that has left both its session and its parents is known by that alone.
    """

    def __init__(
        self, sessions: Collection[int], *, agents: Collection[int] = (), mark: str = ""
    ) -> None:
        """`agents` adopt orphans of the ranks; `mark` is `NAME=value`, of this trial alone.

        None of the `sessions` may have been reaped: its number may be another's by then.
        """
        self._sessions = set(sessions)
        self._agents = set(agents)
        self._mark = mark.encode()
        self._known: dict[int, int] = {}
        self.is_gone = False
        """Nobody was found when it was looked for everywhere; who isn't there has no children."""

    @property
    def pids(self) -> set[int]:
        """Of all that were ever found."""
        return set(self._known) | self._sessions

    def members(self, *, marked: bool = False) -> list[int]:
        """Pids of the living ones. With `marked` every process's environment is looked at too."""
        living = living_processes()
        found = {pid for pid, process in living.items() if self._is_near(pid, process)}
        if marked and self._mark:
            others = {pid for pid, process in living.items() if not process.is_kernels} - found
            found |= {pid for pid in others if self._is_marked(pid)}
        found = _with_descendants(found, living)
        self.is_gone |= marked and not found
        self._known |= {pid: living[pid].started for pid in found}
        return sorted(found)

    def _is_near(self, pid: int, process: LivingProcess) -> bool:
        return (
            process.session in self._sessions
            or process.parent in self._agents
            or self._known.get(pid) == process.started
        )

    def _is_marked(self, pid: int) -> bool:
        return self._mark in environment_of(pid)


def _with_descendants(pids: set[int], living: Mapping[int, LivingProcess]) -> set[int]:
    found = set(pids)
    while True:
        more = {pid for pid, process in living.items() if process.parent in found} - found
        if not more:
            return found
        found |= more

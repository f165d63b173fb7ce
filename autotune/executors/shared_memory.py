"""Segments of shared memory that a trial's processes have left behind.

A segment is a file in /dev/shm that lives until somebody removes it, whoever has ended. It is a
trial's if one of its processes had it mapped or open, or if its name has the number of one as
PyTorch's have; NCCL's and semaphores are mapped as long as they are of use, so that one which
appeared during the trial and that nobody has mapped is of no use to anybody. What may be another
program's is shown and left alone.
"""

import os
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path("/dev/shm")  # noqa: S108 - where the kernel has them
_PROC = Path("/proc")
_OWNER = re.compile(r"^torch_(\d+)_")
_OF_NO_USE_UNMAPPED = ("nccl-", "sem.")
_MOST_NAMES = 5


@dataclass
class SharedMemory:
    """Watches one trial. Made before it starts."""

    folder: Path = FOLDER
    _before: frozenset[str] = field(init=False)
    _ours: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._before = frozenset(_names(self.folder))

    def note(self, pids: Collection[int]) -> None:
        """See which new segments the trial's living processes use."""
        new = self._new()
        if new:
            self._ours |= _used(new, self.folder, pids)

    def clean(self, pids: Collection[int]) -> list[str]:
        """Remove what the trial has left; a clause for each kind of thing that there was.

        `pids` are the processes that it had, all of which are gone.
        """
        new = self._new()
        if not new:
            return []
        unused = new - _used(new, self.folder, map(int, filter(str.isdigit, os.listdir(_PROC))))
        ours = {name for name in unused if name in self._ours or _is_of(name, pids)}
        for name in ours:
            with suppress(OSError):
                (self.folder / name).unlink()
        others = unused - ours
        clauses = []
        if ours:
            clauses.append(f"{_segments(ours)}, removed")
        if others:
            clauses.append(f"{_segments(others)} that may be another program's, not removed")
        return clauses

    def _new(self) -> set[str]:
        """Segments of this user that weren't there when the trial began."""
        found = set(_names(self.folder)) - self._before
        return {name for name in found if _is_own_file(self.folder / name)}


def _segments(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names)[:_MOST_NAMES]) + ", …" * (len(names) > _MOST_NAMES)
    return f"{len(names)} segment{'s' * (len(names) != 1)} of shared memory ({shown})"


def _is_of(name: str, pids: Collection[int]) -> bool:
    owner = _OWNER.match(name)
    return name.startswith(_OF_NO_USE_UNMAPPED) or (owner is not None and int(owner[1]) in pids)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _is_own_file(path: Path) -> bool:
    try:
        return path.is_file() and path.lstat().st_uid == os.getuid()
    except OSError:
        return False


def _used(names: set[str], folder: Path, pids: Iterable[int]) -> set[str]:
    """Those of `names` that one of the processes has mapped or open."""
    used: set[str] = set()
    for pid in pids:
        used |= names & _files_of(pid, folder)
    return used


def _files_of(pid: int, folder: Path) -> set[str]:
    """Names of the files in `folder` that `pid` has mapped or open, as far as it may be read."""
    found = set()
    prefix = f"{folder}/"
    with suppress(OSError):
        maps = (_PROC / str(pid) / "maps").read_text(encoding="utf-8", errors="surrogateescape")
        found |= {line.partition(prefix)[2] for line in maps.splitlines() if prefix in line}
    with suppress(OSError):
        for link in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                target = str(link.readlink())
                if target.startswith(prefix):
                    found.add(target.removeprefix(prefix))
    return found

"""Keeps two studies from training on this machine at once: each would measure the other one.

The lock is one file for all users of the machine, in /tmp or $AUTOTUNE_LOCK_FOLDER, which the
containers of one machine may share. Every study holds it shared, and whoever wants the machine for
itself has to get it exclusively first. The kernel lets go of it when a process ends, however, so a
file that is left says nothing. Its lines are the studies since the machine was last found free.
"""

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from autotune.errors import ExecutorError, UserError
from autotune.storage.lease import boot_id

FOLDER = "AUTOTUNE_LOCK_FOLDER"
_STUDY = re.compile(r"(\d+) ([\w-]+)")
_MOST_BYTES = 64 * 1024


@dataclass(kw_only=True)
class MachineUse:
    """One study's use of the machine."""

    _descriptor: int
    _before: list[str] = field(default_factory=list)
    """Studies that were under way when this one came."""
    _own: str = ""

    def announce(self, run_id: str) -> None:
        """Tell whoever comes which run this is."""
        self._own = f"{os.getpid()} {run_id}"
        os.write(self._descriptor, f"{self._own}\n".encode())

    def shared_with(self) -> tuple[str, ...]:
        """The other studies on this machine since this one began."""
        lines = _lines(self._descriptor)
        since = lines[lines.index(self._own) + 1 :] if self._own in lines else []
        return tuple(_described(line) for line in dict.fromkeys([*self._before, *since]))


@contextmanager
def machine_use(*, share: bool) -> Iterator[MachineUse]:
    """Have the machine for this study alone, or with `share` beside others.

    Raises UserError, if another study has it and `share` isn't given.
    """
    path = lock_file(os.environ)
    with _os_errors(path):
        descriptor = _open(path)
    try:
        with _os_errors(path):
            before = _enter(descriptor, share=share)
        yield MachineUse(_descriptor=descriptor, _before=before)
    finally:
        os.close(descriptor)


@contextmanager
def _os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ExecutorError(
            f"{path}: can't be used as the machine's lock: {error.strerror}",
            hint=f"set {FOLDER} to a folder that all who train here may write to",
        ) from None


def lock_file(environment: Mapping[str, str]) -> Path:
    """One for each boot of each machine, whoever asks: a folder may be shared by several."""
    folder = environment.get(FOLDER) or "/tmp"  # noqa: S108 - not $TMPDIR, which each user may have
    return Path(folder) / f"autotune-{boot_id()}.lock"


def _enter(descriptor: int, *, share: bool) -> list[str]:
    """Take the lock; the studies that have it, if they may be joined."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        there = _living(_lines(descriptor))
        if not share:
            who = " and ".join(map(_described, there)) or "a run that is just beginning"
            raise UserError(
                f"this machine is in use by {who}, and each would disturb what the other measures",
                hint="wait until that has ended, or go on anyway with --share-machine",
            ) from None
    else:
        there = []
        os.ftruncate(descriptor, 0)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return there


def _open(path: Path) -> int:
    # Without O_CREAT first: in a sticky folder Linux refuses it for another user's file
    # (fs.protected_regular). Close-on-exec, so that no rank keeps the lock.
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:  # so it is made
        pass
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL)
    except FileExistsError:  # made by another one meanwhile
        return os.open(path, flags)
    os.fchmod(descriptor, 0o666)  # for all users, whatever the umask
    return descriptor


def _lines(descriptor: int) -> list[str]:
    """The studies in the file; anybody may write to it, so nothing else is believed."""
    text = os.pread(descriptor, _MOST_BYTES, 0).decode("ascii", "replace")
    return [line for line in text.splitlines() if _STUDY.fullmatch(line)]


def _living(lines: list[str]) -> list[str]:
    """Without those that have ended; all, if none of the pids is known in this container."""
    return [line for line in lines if Path("/proc", line.split()[0]).exists()] or lines


def _described(line: str) -> str:
    pid, _, run_id = line.partition(" ")
    return f"run {run_id} (pid {pid})"

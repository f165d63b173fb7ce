"""Folders among the temporary files that are removed even if their process is killed.

Each holds a file that its process has locked for as long as it lives, which other containers see as
well: the kernel gives the lock back when the process dies. Wardens remove what their launcher has
left, and node agents what was left when a warden died, too.
"""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

PREFIX = "autotune-"
_OWNER = ".autotune-owner"
"""Locked. Without it a folder is somebody else's, whatever its name."""
_KEPT = ".autotune-kept"
"""In its place once the folder is left to a person."""
KEPT_S = 7 * 86_400.0


class OwnFolder:
    """A private folder of this process, gone when `remove` was called or the process is dead."""

    def __init__(self, kind: str = "") -> None:
        """`kind` becomes part of its name. Raises OSError if there is no room for it."""
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}"))
        self._lock = _claim(self.path)
        self._is_kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._is_kept:
            self.remove()

    def remove(self) -> bool:
        """Remove it with all that is in it; whether it is gone."""
        _remove(self.path)
        self._release()
        return not self.path.exists()

    def keep(self) -> None:
        """Leave it to a person, who is told of it, for some days."""
        self._is_kept = True
        with suppress(OSError):
            (self.path / _OWNER).rename(self.path / _KEPT)
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_abandoned() -> None:
    """Remove such folders whose process is dead, and kept ones that are old. Never raises."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if _is_ours(folder) and _is_abandoned(folder):
                _remove(folder)


def is_left(folder: Path) -> bool:
    """Whether the process whose `folder` it is or was has died, or has removed it.

    Raises OSError if it can't be seen.
    """
    if not folder.parent.is_dir():
        raise FileNotFoundError(folder.parent)
    if not folder.exists():
        return True
    return _is_abandoned(folder)


def _claim(folder: Path) -> int | None:
    """A descriptor that holds the lock; None where files can't be locked: it isn't swept then."""
    new = folder / f"{_OWNER}-new"
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        new.rename(folder / _OWNER)  # never seen there without its lock
    except OSError:
        os.close(descriptor)
        new.unlink(missing_ok=True)
        return None
    return descriptor


def _is_ours(folder: Path) -> bool:
    return folder.lstat().st_uid == os.geteuid() and not folder.is_symlink()


def _is_abandoned(folder: Path) -> bool:
    """Raises OSError if it is no such folder, or in use."""
    with suppress(FileNotFoundError):
        return time.time() - (folder / _KEPT).lstat().st_mtime > KEPT_S
    descriptor = os.open(folder / _OWNER, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
    return True


def _remove(folder: Path) -> None:
    """The file that says whose it is comes last: what can't be removed yet is found again."""
    with suppress(OSError):
        for entry in _others(folder):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
                continue
            with suppress(OSError):
                entry.unlink()
        if not _others(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _others(folder: Path) -> list[Path]:
    return [entry for entry in folder.iterdir() if entry.name not in (_OWNER, _KEPT)]

"""A trial's own folder for temporary files, gone when the trial is."""

import getpass
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from autotune.executors.own_folder import OwnFolder


class Scratch:
    """A private folder that the ranks of one trial have as TMPDIR.

    It lies where the launcher's own temporary files do, and its path is short: sockets that
    PyTorch and multiprocessing make in it may have paths of no more than 108 bytes. Its name is no
    other trial's, so TMPDIR also marks the trial's processes.
    """

    def __init__(self) -> None:
        """Raises OSError if there is no room for it."""
        self._folder = OwnFolder()
        self.path = self._folder.path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    @property
    def mark(self) -> str:
        """What the trial's processes, and no others, have in their environment."""
        return f"TMPDIR={self.path}"

    def variables(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Of the ranks. What they compile is kept for later trials, where it would be anyway."""
        caches = str(Path(tempfile.gettempdir()) / f"torchinductor_{_user()}")
        return {
            "TMPDIR": str(self.path),
            "TORCHINDUCTOR_CACHE_DIR": inherited.get("TORCHINDUCTOR_CACHE_DIR", caches),
        }

    def remove(self) -> str:
        """Remove it with all that is in it; returns a clause on what can't be removed, or ""."""
        is_gone = self._folder.remove()
        return "" if is_gone else f"temporary files in {self.path} that can't be removed"


def _user() -> str:
    """As PyTorch has it in the name of its cache's folder."""
    try:
        return re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    except (KeyError, OSError):  # a container's user may have no entry
        return str(os.getuid())

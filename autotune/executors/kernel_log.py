"""What the kernel logs while a trial runs: Xid errors of GPUs, processes killed for memory."""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

KMSG = Path("/dev/kmsg")
MOST_RECORDS = 1000
_RECORD_BYTES = 8192
"""CONSOLE_EXT_LOG_MAX of the kernel: a shorter buffer fails."""


class KernelLog:
    """Follows /dev/kmsg from when it is entered on; says nothing where that isn't allowed.

    The file gives one record a read, `priority,sequence,time,flags;text` and lines of attributes
    that begin with a space (Documentation/ABI/testing/dev-kmsg).
    """

    def __init__(self, path: Path = KMSG) -> None:
        self._path = path
        self._fd: int | None = None

    def __enter__(self) -> Self:
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self.close()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None

    def text(self) -> str:
        """The lines since it was entered, or asked the last time."""
        lines = []
        for _ in range(MOST_RECORDS):
            record = self._record()
            if record is None:
                break
            _, _, text = record.partition(b";")
            lines.append(text.partition(b"\n")[0].decode("utf-8", errors="replace"))
        return "\n".join(lines)

    def _record(self) -> bytes | None:
        """The next record; None if there is none."""
        if self._fd is None:
            return None
        try:
            return os.read(self._fd, _RECORD_BYTES) or None
        except BrokenPipeError:
            return b""  # records were overwritten before they were read; the next ones are there
        except OSError:
            return None

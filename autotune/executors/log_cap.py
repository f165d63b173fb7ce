"""Keeps the logs of a running trial from filling the disk, whatever its ranks print.

A log may grow to 32 MiB. Then its beginning is kept aside, and it goes on from empty. Once the
trial has ended, the first and the last mebibyte remain, with a line in between that says how much
is missing. Ranks append to their logs, so that they go on at the new end; a pipe in place of the
file would have them wait for the launcher.
"""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self

MOST_BYTES = 32 * 2**20
"""On the disk while the trial runs, and what is printed in a tenth of a second on top."""
KEPT_BYTES = 2**20
"""Of the beginning and of the end, when the trial has ended."""
KEPT_WELL_BYTES = 2**15
"""The same for a trial that nobody will ask questions about: it measured what it was to measure."""
CHECK_S = 0.1


class _Log:
    """One file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._head = b""
        self._tail = b""
        self._dropped = 0

    def check(self) -> None:
        """Empty it if it is too long."""
        with suppress(OSError):
            if self._path.stat().st_size > MOST_BYTES:
                self._empty()

    def trim(self, kept_bytes: int) -> None:
        """Leave only its beginning and its end; nobody writes to it any more."""
        with suppress(OSError), self._path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            if not self._dropped and size <= 2 * kept_bytes:
                return
            head = self._head or _read(file.fileno(), 0, kept_bytes)
            last = _read(file.fileno(), max(0, size - kept_bytes), kept_bytes)
            tail = (self._tail + last)[-kept_bytes:]
            total = self._dropped + size
            missing = max(0, total - len(head[:kept_bytes]) - len(tail))
            note = f"\n[autotune: {missing} of {total} bytes left out here]\n".encode()
            file.seek(0)
            file.write(head[:kept_bytes] + note + tail)
            file.truncate()
            self._head, self._tail, self._dropped = b"", b"", 0

    def _empty(self) -> None:
        with self._path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            self._head = self._head or _read(file.fileno(), 0, KEPT_BYTES)
            self._tail = _read(file.fileno(), max(0, size - KEPT_BYTES), KEPT_BYTES)
            self._dropped += size
            file.truncate(0)


class LogCap:
    """Watches the logs of one trial from a thread: the launcher may be waiting for a terminal."""

    def __init__(self, paths: Collection[Path]) -> None:
        self._logs = [_Log(path) for path in paths]
        self._is_over = Event()
        self._thread = Thread(target=self._watch, name="log-cap", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.finish()

    def finish(self) -> None:
        """Stop watching, and trim the logs; all who write to them are gone. Once is enough."""
        if self._is_over.is_set():
            return
        self._is_over.set()
        self._thread.join()
        self.trim(KEPT_BYTES)

    def trim(self, kept_bytes: int) -> None:
        """Leave so much of the beginning and of the end of each."""
        for log in self._logs:
            log.trim(kept_bytes)

    def _watch(self) -> None:
        while not self._is_over.wait(CHECK_S):
            for log in self._logs:
                log.check()


def _read(descriptor: int, at: int, count: int) -> bytes:
    return os.pread(descriptor, count, at)

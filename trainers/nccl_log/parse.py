"""From lines, or a file, to what they say."""

import os
import stat
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from autotune.errors import UserError
from autotune.trainers.nccl_log.collect import Collector
from autotune.trainers.nccl_log.lines import LONGEST_LINE, split
from autotune.trainers.nccl_log.merge import merge
from autotune.trainers.nccl_log.readback import NcclReadback

LARGEST_BYTES = 8 << 20
"""Read of a file: NCCL's own output for a trial has less than 1 MiB."""
MOST_PROCESSES = 64


def read_log(path: Path, largest_bytes: int = LARGEST_BYTES, start: int = 0) -> NcclReadback:
    """What the log at `path` says from byte `start` on; of a long one, its head and its tail.

    Raises UserError if `path` isn't a file that can be read.
    """
    try:
        head, tail, skipped = _ends(path, max(largest_bytes, 2) // 2, start)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: can't be read: {error}") from error
    if not skipped:
        return parse(_lines(head + tail))
    # The tail's first line has lost its beginning, as the head's last one has its end.
    readback = parse([*_lines(head), *_lines(tail)[1:]])
    return replace(readback, skipped_bytes=readback.skipped_bytes + skipped)


def parse(lines: Iterable[str]) -> NcclReadback:
    """What `lines` say, of all processes that wrote them together."""
    return merge(parse_processes(lines)).readback


def parse_processes(lines: Iterable[str]) -> tuple[NcclReadback, ...]:
    """What `lines` say, for each process that wrote them, in order of appearance."""
    parser = _Parser()
    for line in lines:
        parser.line(line)
    return parser.readbacks()


def _ends(path: Path, half: int, start: int) -> tuple[bytes, bytes, int]:
    """From `start`: the first and the last `half` bytes, and how many lie between them."""
    # Without O_NONBLOCK, opening a pipe that nobody writes to would never return.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            file.seek(start)
            head = file.read(half)
            skipped = max(0, status.st_size - start - 2 * half)
            file.seek(start + len(head) + skipped)
            return head, file.read(half), skipped
    finally:
        os.close(descriptor)


def _lines(data: bytes) -> list[str]:
    """Whole lines: the last one is dropped if its writer was killed before its end."""
    return data.decode("utf-8", "replace").split("\n")[:-1]


class _Parser:
    """Hands each line to the process that wrote it."""

    def __init__(self) -> None:
        self._collectors: dict[str, Collector] = {}
        self._headless = Collector()
        """For lines that name no process."""
        self._matrix_of: Collector | None = None
        self._cut = 0
        self._dropped = 0

    def line(self, line: str) -> None:
        self._cut += max(0, len(line) - LONGEST_LINE)
        for message in split(line):
            if not message.level:
                self._without_head(message.text)
                continue
            collector = self._collector(message.process)
            if collector is None:
                self._dropped += 1
                continue
            collector.add(message)
            if collector.matrix.is_open:
                self._matrix_of = collector

    def readbacks(self) -> tuple[NcclReadback, ...]:
        collectors = list(self._collectors.values())
        loose = self._headless.readback()
        readbacks = [_with_version(c.readback(), loose) for c in collectors]
        if loose.messages or not collectors:
            readbacks.append(replace(loose, processes=1 if loose.messages else 0))
        first = readbacks[0]
        readbacks[0] = replace(
            first,
            skipped_bytes=first.skipped_bytes + self._cut,
            dropped=first.dropped + self._dropped,
        )
        return tuple(readbacks)

    def _collector(self, process: str) -> Collector | None:
        if not process:
            return self._headless
        if process not in self._collectors:
            if len(self._collectors) >= MOST_PROCESSES:
                return None
            self._collectors[process] = Collector()
        return self._collectors[process]

    def _without_head(self, text: str) -> None:
        self._headless.version(text)
        if self._matrix_of is not None and self._matrix_of.matrix.is_open:
            self._matrix_of.matrix.line(text)


def _with_version(readback: NcclReadback, loose: NcclReadback) -> NcclReadback:
    """Older ones print their version once, on a line that names no process."""
    if readback.nccl_version:
        return readback
    return replace(readback, nccl_version=loose.nccl_version, cuda_version=loose.cuda_version)

"""Logs as they lie on disks: files, folders of them, stdin; however large they are."""

import os
import re
import stat
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn

from autotune.diagnosis import Log
from autotune.errors import FieldError

STDIN = Path("-")
MOST_BYTES = 32 * 2**20
"""Of all logs together; each gets the same share, of which a quarter is its beginning."""
LEAST_BYTES = 2**18
MOST_FILES = 1000
_SUFFIXES = {".log", ".txt", ".out", ".err"}
_NAMES = {"stdout", "stderr", "dmesg"}
_CHUNK = 2**16
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])rank[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)


def find(paths: Sequence[Path]) -> list[Path]:
    """The files at `paths`; of folders, those below that are named like logs.

    Raises FieldError for what isn't there, isn't readable or holds no log.
    """
    found = [file for path in paths for file in _files(path)]
    if len(found) > MOST_FILES:
        raise FieldError("LOG", len(found), f"files are more than {MOST_FILES}")
    return found


def read(paths: Sequence[Path]) -> Iterator[Log]:
    """The log in each of `paths`, read when it is asked for. Raises FieldError."""
    share = max(LEAST_BYTES, MOST_BYTES // max(1, len(paths)))
    for path in paths:
        try:
            if path == STDIN:
                yield Log(name="stdin", parts=_parts(_stdin(), share))
            else:
                with path.open("rb") as file:
                    parts = _parts(file, share)
                yield Log(name=_printable(path), parts=parts, rank=rank_of(path))
        except OSError as error:
            error.filename = error.filename or path
            _refuse(error)


def rank_of(path: Path) -> int | None:
    """The rank whose log it is by its name: rank-3.log, or torchrun's attempt_0/3/stderr.log."""
    named = _RANK_IN_NAME.search(path.stem)
    if named:
        return int(named[1])
    folder = path.parent.name
    is_torchrun = path.parent.parent.name.startswith("attempt_") and len(folder) <= 6
    return int(folder) if is_torchrun and folder.isdecimal() else None


def _files(path: Path) -> Iterator[Path]:
    if path == STDIN:
        yield path
        return
    try:
        mode = path.stat().st_mode
    except OSError as error:
        _refuse(error)
    if stat.S_ISDIR(mode):
        yield from _folder(path)
    elif stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
        yield path
    else:
        raise FieldError("LOG", str(path), "has to be a file, a folder or - for stdin")


def _folder(path: Path) -> list[Path]:
    found: list[Path] = []
    for folder, names, files in os.walk(path, onerror=_refuse):
        names.sort()
        found += [Path(folder, name) for name in sorted(files) if _is_log(Path(folder, name))]
        if len(found) > MOST_FILES:
            break
    if not found:
        raise FieldError(
            "LOG",
            str(path),
            f"holds no file that is named like a log ({', '.join(sorted(_SUFFIXES))})",
            hint="name the files",
        )
    return found


def _refuse(error: OSError) -> NoReturn:
    raise FieldError("LOG", str(error.filename), f"can't be read: {error.strerror}")


def _is_log(path: Path) -> bool:
    named = path.name in _NAMES or bool(_SUFFIXES.intersection(path.suffixes))
    return named and path.is_file()


def _parts(stream: BinaryIO, limit: int) -> tuple[tuple[int, str], ...]:
    """At most `limit` bytes of `stream`, as text with numbers of first lines: all, or both ends.

    The whole stream is read, since the lines between the ends count, but no more is kept.
    """
    head = stream.read(limit // 4)
    chunks: deque[bytes] = deque()
    kept = dropped = lines = 0
    while chunk := stream.read(_CHUNK):
        chunks.append(chunk)
        kept += len(chunk)
        if kept > limit - limit // 4:
            gone = chunks.popleft()
            kept -= len(gone)
            dropped += len(gone)
            lines += gone.count(b"\n")
    tail = b"".join(chunks)
    if not dropped:
        return ((1, _text(head + tail)),)
    # The tail begins within a line, whose end says nothing.
    _, _, tail = tail.partition(b"\n")
    return (1, _text(head)), (head.count(b"\n") + lines + 2, _text(tail))


def _stdin() -> BinaryIO:
    if sys.stdin is None:
        raise FieldError("LOG", str(STDIN), "can't be read: stdin is closed")
    return sys.stdin.buffer


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


def _printable(path: Path) -> str:
    return str(path).encode("utf-8", errors="replace").decode("utf-8")

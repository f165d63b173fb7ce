"""The end of a rank's log: to be stored and shown in a terminal, or to be diagnosed."""

import os
from pathlib import Path

from autotune.diagnosis import without_controls

TAIL_LINES = 40
TAIL_BYTES = 8 * 2**10
EVIDENCE_BYTES = 2**18
"""C++ stacks, which PyTorch's watchdog writes several of after what says why, are some 20 KiB."""


def log_tail(path: Path) -> str:
    """At most the last 40 lines and 8 KiB of `path`, fit to be shown; empty if unreadable.

    A progress bar's carriage returns become newlines first, so that it counts as its last lines.
    """
    text = log_end(path, TAIL_BYTES).replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.rstrip() for line in without_controls(text).split("\n")]
    return "\n".join(lines[-TAIL_LINES - 1 :] if not lines[-1] else lines[-TAIL_LINES:]).strip("\n")


def log_end(path: Path, most_bytes: int = EVIDENCE_BYTES) -> str:
    """The last bytes of `path`, read from its end alone; empty if unreadable.

    What isn't UTF-8 is replaced.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most_bytes))
            return file.read(most_bytes).decode("utf-8", errors="replace")
    except OSError:
        return ""


def last_line(tail: str) -> str:
    """The last line of `tail` that says something, cut to 200 characters."""
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""

"""The end of a rank's log, fit to be stored and shown in a terminal."""

import os
import re
from pathlib import Path

TAIL_LINES = 40
TAIL_BYTES = 8 * 2**10
# Colours and cursor movements (ECMA-48), then every other control character but newline and tab.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def log_tail(path: Path) -> str:
    """At most the last 40 lines and 8 KiB of `path`, read from its end alone; empty if unreadable.

    What isn't UTF-8 is replaced. A progress bar's carriage returns become newlines first, so that
    it counts as its last lines.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            raw = file.read(TAIL_BYTES)
    except OSError:
        return ""
    text = raw.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.rstrip() for line in _CONTROL.sub("", text).split("\n")]
    return "\n".join(lines[-TAIL_LINES - 1 :] if not lines[-1] else lines[-TAIL_LINES:]).strip("\n")


def last_line(tail: str) -> str:
    """The last line of `tail` that says something, cut to 200 characters."""
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""

"""Trials whose launcher died: before the first trial here, what is left of them is ended.

A launcher's warden does the same within seconds, unless it died, too.
"""

import os
import re
import tempfile
from pathlib import Path

from autotune.executors.family import Family, environment_of, living_processes
from autotune.executors.own_folder import PREFIX, is_left
from autotune.executors.warden import end


def end_orphans() -> list[int]:
    """End them all; returns pids of those that even SIGKILL doesn't end."""
    marks = _marks()
    for mark in marks:
        end(mark)
    return [pid for mark in marks for pid in Family((), mark=mark).members(marked=True)]


def _marks() -> list[str]:
    """Of trials that have processes here, and no launcher."""
    pids = [pid for pid, process in living_processes().items() if not process.is_kernels]
    found = [_mark_of(pid) for pid in pids if pid != os.getpid()]
    return sorted({mark for mark in found if mark})


def _mark_of(pid: int) -> str:
    """The mark of the trial that the process belongs to, if its launcher is dead; else empty."""
    form = re.compile(f"TMPDIR={re.escape(tempfile.gettempdir())}/{PREFIX}\\w{{8}}")
    marks = [entry for entry in map(os.fsdecode, environment_of(pid)) if form.fullmatch(entry)]
    if not marks:
        return ""
    # As the process sees it: a container's files are its own.
    root, folder = Path(f"/proc/{pid}/root"), marks[0].removeprefix("TMPDIR=/")
    try:
        return marks[0] if is_left(root / folder) else ""
    except OSError:
        return ""  # another user's, or just gone

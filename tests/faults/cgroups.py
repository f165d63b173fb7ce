"""Control groups of version 1 for fault tests: a limit of memory, a freezer. Needs root."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")


def why_not(controller: str) -> str:
    """Why this machine can't make such a group, or empty."""
    if os.geteuid() != 0:
        return "control groups need root"
    probe = MOUNT / controller / f"autotune-probe-{os.getpid()}"
    try:
        probe.mkdir()
        if not (probe / "cgroup.procs").exists():
            return f"there is no control group of version 1 with {controller}"
    except OSError as error:
        return f"no control group can be made: {error}"
    finally:
        with suppress(OSError):
            probe.rmdir()
    return ""


@contextmanager
def group(controller: str, **settings: str) -> Iterator[Path]:
    """A new group, empty again at the end; `memory_limit_in_bytes` is memory.limit_in_bytes."""
    path = MOUNT / controller / f"autotune-{os.getpid()}-{time.monotonic_ns()}"
    path.mkdir()
    try:
        for name, value in settings.items():
            (path / name.replace("_", ".", 1)).write_text(value)
        yield path
    finally:
        with suppress(OSError):
            (path / "freezer.state").write_text("THAWED")
        deadline = time.monotonic() + 20
        while (path / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        path.rmdir()

"""From a process that was just forked from a warm parent to a rank that can't tell."""

import faulthandler
import fcntl
import importlib
import os
import runpy
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autotune.trainers import process

RANK_PROGRAM = "autotune.trainers.rank"
Program = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class ForkRequest:
    """What a forked rank becomes."""

    arguments: list[str]
    """Of the interpreter: `-m autotune.trainers.rank SPEC`, or a script and its arguments."""
    environment: dict[str, str]
    cores: list[int]
    """That it may run on."""
    numbers: list[int]
    """That its descriptors are to have."""


def become(
    request: ForkRequest, descriptors: list[int], parent: int, leads_session: int
) -> Program:
    """Leave nothing of the parent in this forked process but the modules it has imported."""
    try:
        os.setsid()
        process.die_with_parent()
        if os.getppid() != parent:  # it died before this process would have been told
            os._exit(1)
        os.close(leads_session)
        log, folder, *own = descriptors
        os.fchdir(folder)
        null = os.open(os.devnull, os.O_RDONLY)
        arrange_descriptors([null, log, log, *own], [0, 1, 2, *request.numbers])
        os.umask(0o077)
        os.sched_setaffinity(0, request.cores)
        os.environ.clear()
        os.environ.update(request.environment)
        return _program(request.arguments)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def arrange_descriptors(descriptors: Sequence[int], numbers: Sequence[int]) -> None:
    """Give `descriptors` these `numbers`, and close everything else."""
    above = max(*descriptors, *numbers) + 1
    # Out of the way first: one's number may be what another is to have.
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in descriptors]
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in moved:
            with suppress(OSError):  # the listing's own
                os.close(int(name))
    for fd, number in zip(moved, numbers, strict=True):
        os.dup2(fd, number, inheritable=number <= 2)
        os.close(fd)


def _program(arguments: Sequence[str]) -> Program:
    """What the interpreter would run if it were started with `arguments`."""
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    tempfile.tempdir = None  # TMPDIR is the rank's own
    random = sys.modules.get("numpy.random")
    if random is not None:  # Python's own generator is seeded anew by fork, NumPy's isn't
        random.seed()
    if list(arguments[:2]) == ["-m", RANK_PROGRAM]:
        rank = importlib.import_module(RANK_PROGRAM)
        sys.argv = [str(rank.__file__), *arguments[2:]]
        return lambda: rank.main(arguments[2:])
    script = arguments[0]
    sys.argv = list(arguments)
    if not os.environ.get("PYTHONSAFEPATH"):
        sys.path[0] = str(Path(script).absolute().parent)
    return lambda: runpy.run_path(script, run_name="__main__")

"""Keeps two controllers on this machine from working on one run."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from autotune.errors import FieldError, StorageError
from autotune.storage import data_folder

_PATIENCE_S = 0.2
"""`is_abandoned` holds a lock for an instant: that is no other controller."""


@contextmanager
def run_lock(run_id: str) -> Iterator[None]:
    """Hold the run for this process. The kernel lets go of it when the process ends, however.

    Raises FieldError if another process holds it.
    """
    path = _path(run_id)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Close-on-exec, so that no rank keeps it alive.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{path.parent}: can't be written: {error.strerror}") from None
    try:
        _lock(descriptor, run_id)
        yield
    finally:
        os.close(descriptor)


def is_abandoned(run_id: str) -> bool:
    """Whether the run was begun on this machine, and no process works on it now.

    False for a run of another machine or another data folder, of which nothing is known here.
    """
    try:
        descriptor = os.open(_path(run_id), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _path(run_id: str) -> Path:
    return data_folder() / "runs" / run_id / "lock"


def _lock(descriptor: int, run_id: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > deadline:
            raise FieldError(
                "RUN",
                run_id,
                "is being run by another process on this machine",
                hint="wait until it has ended, or end it",
            )
        time.sleep(_PATIENCE_S / 10)

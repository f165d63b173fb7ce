"""Keeps two controllers on this machine from working on one run."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from autotune.errors import FieldError, StorageError
from autotune.storage import data_folder


@contextmanager
def run_lock(run_id: str) -> Iterator[None]:
    """Hold the run for this process. The kernel lets go of it when the process ends, however.

    Raises FieldError if another process holds it.
    """
    folder = data_folder() / "runs" / run_id
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Close-on-exec, so that no rank keeps it alive.
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{folder}: can't be written: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise FieldError(
            "RUN",
            run_id,
            "is being run by another process on this machine",
            hint="wait until it has ended, or end it",
        ) from None
    finally:
        os.close(descriptor)

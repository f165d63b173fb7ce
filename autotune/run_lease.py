"""Keeps two controllers from working on one run, on whatever machine they are.

A controller takes the run's lease in the store and renews it while it lives. A lease that isn't
renewed ends by itself, and one whose owner is known to be gone doesn't count.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread

from autotune.errors import FieldError, LeaseLostError, OutageError, StorageError
from autotune.model import Study, StudyStatus
from autotune.storage import Store
from autotune.storage.folder import run_folder
from autotune.storage.lease import Lease, Owner, boot_id
from autotune.storage.run_records import RETRY_S, RunRecords

LEASE_S = 60.0
"""After so long without a sign of its controller a run is anybody's."""
BEAT_S = 10.0
"""Between two renewals."""
_JOIN_S = 1.0
"""How long the end waits for a renewal under way, which can't take the lease again once it is let
go of, and ends with the process."""


@contextmanager
def hold_run(
    store: Store,
    run_id: str,
    *,
    say: Callable[[str], None],
    cancel: Event,
    resume_command: str,
) -> Iterator[RunRecords]:
    """Work on the run, alone; `cancel` is set if another process takes it over.

    Raises FieldError if another one works on it.
    """
    owner = this_process()
    _take(store, run_id, owner)
    records = RunRecords(
        store,
        run_id,
        owner.token,
        folder=run_folder(run_id),
        say=say,
        resume_command=resume_command,
    )
    keeper = _Keeper(store, run_id, owner.token, records, cancel)
    works = True
    try:
        with keeper:
            records.recover()
            yield records
    except OutageError:
        works = False
        raise
    finally:
        records.close()
        if works and not records.is_behind:
            with suppress(StorageError):
                store.release_lease(run_id, owner.token)


def is_stale(study: Study, lease: Lease | None) -> bool:
    """Whether the study hasn't ended, and no process works on it any more."""
    return study.status is StudyStatus.RUNNING and (
        lease is None or lease.left_s <= 0 or is_gone(lease.owner)
    )


def this_process() -> Owner:
    """The owner that this process is."""
    pid = os.getpid()
    return Owner(
        token=secrets.token_hex(16),
        host=os.uname().nodename,
        pid=pid,
        boot=boot_id(),
        pid_namespace=_pid_namespace(),
        started=_started(pid) or 0,
    )


def is_gone(owner: Owner) -> bool:
    """Whether the owner has ended for certain, which only shows where its pid means something."""
    here = (boot_id(), _pid_namespace())
    if not owner.pid_namespace or (owner.boot, owner.pid_namespace) != here:
        return False
    try:
        os.kill(owner.pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:  # it lives, and is another user's
        pass
    started = _started(owner.pid)
    # Unknown where /proc hides the processes of others.
    return started is not None and started != owner.started


def _take(store: Store, run_id: str, owner: Owner) -> None:
    lease = store.take_lease(run_id, owner, LEASE_S)
    if lease.owner != owner and is_gone(lease.owner):
        lease = store.take_lease(run_id, owner, LEASE_S, instead_of=lease.owner.token)
    if lease.owner != owner:
        raise FieldError(
            "RUN",
            run_id,
            f"is being run by another process, {lease.owner.describe()}",
            hint="wait until it has ended, or end it; if it is gone without having ended, its "
            f"lease ends in {lease.left_s:.0f} s",
        )


class _Keeper:
    """Renews the lease in a thread of its own, and stores what was put aside."""

    def __init__(
        self, store: Store, run_id: str, token: str, records: RunRecords, cancel: Event
    ) -> None:
        self._renew = partial(store.renew_lease, run_id, token, LEASE_S)
        self._records = records
        self._cancel = cancel
        self._done = Event()
        self._thread = Thread(target=self._run, name="lease", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._done.wait(RETRY_S if self._records.is_behind else BEAT_S):
            try:
                if not self._renew():
                    break
                self._records.flush()
            except LeaseLostError:
                break
            except StorageError:
                # An outage; anything else is raised to the study when it writes.
                continue
        else:
            return
        # The study then finds out by itself that it may not write.
        self._cancel.set()


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started(pid: int) -> int | None:
    """When the process began, in clock ticks; -1 if it has ended, None if that can't be seen."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # After the name, which may hold anything: state is field 3, the start field 22 (proc(5)).
    fields = stat.rpartition(b")")[2].split()
    return -1 if fields[0] in (b"Z", b"X") else int(fields[19])

"""A run's lease: held by real processes, renewed, lost, and known to be stale."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from autotune.errors import FieldError, LeaseLostError
from autotune.model import StudyStatus
from autotune.run_lease import _started, hold_run, is_gone, is_stale, this_process
from autotune.storage import MemoryStore, open_store
from autotune.storage.lease import Lease, Owner
from autotune.storage.run_records import RunRecords
from tests.conformance.records import a_study, a_trial

HOLD = """
import sys
from threading import Event
from autotune.run_lease import hold_run
from autotune.storage import open_store
store = open_store(sys.argv[1])
with hold_run(store, "r", say=print, cancel=Event(), resume_command=""):
    print("held", flush=True)
    sys.stdin.readline()
"""
STRANGER = Owner(token="x", host="h", pid=1)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("autotune.run_lease.BEAT_S", 0.01)


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    made.add_study(a_study())
    return made


@contextmanager
def holding(store: MemoryStore, cancel: Event | None = None) -> Iterator[RunRecords]:
    with hold_run(
        store, "r", say=lambda _: None, cancel=cancel or Event(), resume_command=""
    ) as records:
        yield records


def wait_for(event: Event) -> None:
    assert event.wait(30)


def test_a_run_whose_controller_was_killed_is_stale_and_free_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/r.db"
    with open_store(url) as store:
        store.add_study(a_study())
        assert is_stale(a_study(), None), "nobody has it"
        with subprocess.Popen(
            [sys.executable, "-c", HOLD, url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as other:  # fmt: skip
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            lease = store.leases()["r"]
            assert lease.owner.pid == other.pid
            assert not is_stale(a_study(), lease)
            with (
                pytest.raises(FieldError, match=f"another process, pid {other.pid} on"),
                hold_run(store, "r", say=print, cancel=Event(), resume_command=""),
            ):
                pass
            other.kill()
            # Also before it is reaped.
            os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
            assert is_stale(a_study(), store.leases()["r"])
            other.communicate()
        with hold_run(store, "r", say=print, cancel=Event(), resume_command=""):
            assert store.leases()["r"].owner.pid == os.getpid()
        assert store.leases() == {}


def test_a_lease_is_renewed_while_it_is_held(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed = Event()
    left_s: list[float] = []

    def renew(run_id: str, token: str, seconds: float) -> bool:
        left_s.append(store.leases()["r"].left_s)
        if len(left_s) == 3:
            renewed.set()
        return MemoryStore.renew_lease(store, run_id, token, seconds)

    monkeypatch.setattr(store, "renew_lease", renew)
    with holding(store):
        wait_for(renewed)


def test_who_loses_the_lease_is_told_to_stop_and_writes_nothing(store: MemoryStore) -> None:
    cancel = Event()
    with holding(store, cancel) as records:
        store.take_lease("r", STRANGER, 60.0, instead_of=store.leases()["r"].owner.token)
        wait_for(cancel)
        with pytest.raises(LeaseLostError):
            records.add_trial(a_trial(0))
    assert store.trials("r") == []
    assert store.leases()["r"].owner == STRANGER, "it isn't let go of for the other one"


def test_only_where_a_pid_means_something_is_an_owner_known_to_be_gone() -> None:
    here = this_process()
    assert not is_gone(here)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert is_gone(replace(here, pid=ended.pid))
    assert is_gone(replace(here, started=here.started - 1)), "its pid was given again"
    assert is_gone(replace(here, pid=2**40))
    assert not is_gone(replace(here, pid=ended.pid, boot="of another machine"))
    assert not is_gone(replace(here, pid=ended.pid, pid_namespace="of another container"))
    assert not is_gone(replace(here, pid=ended.pid, pid_namespace=""))


def test_a_process_that_nobody_has_waited_for_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert _started(process.pid) == -1


def test_an_ended_study_is_never_stale() -> None:
    for status in (StudyStatus.INTERRUPTED, StudyStatus.FINISHED):
        assert not is_stale(a_study(status=status), None)
    for left_s in (-1.0, 0.0):
        assert is_stale(a_study(), Lease(run_id="r", owner=STRANGER, left_s=left_s))
    assert not is_stale(a_study(), Lease(run_id="r", owner=STRANGER, left_s=1.0))

"""The store fails while a study runs: items 9 (disk full, folder removed), 16 and 17.

The study goes on meanwhile, and is in the end the one that it would have been.
"""

import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.faults.store_faults import (
    SHORT,
    SIMULATED,
    Command,
    Place,
    course,
    disk,
    filled,
    locked,
    place,
    undisturbed,
)
from tests.postgres import PASSWORD, Cluster, running_cluster

__all__ = ["disk", "place", "undisturbed"]
Course = list[tuple[object, ...]]
PUT_ASIDE = "results are put aside until it works again"
MOVE = re.compile(r"kept in (\S+) \(move it to (\S+) first\)")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as made:
        yield made


@contextmanager
def stopped(cluster: Cluster) -> Iterator[None]:
    """The server is down."""
    cluster.stop()
    try:
        yield
    finally:
        cluster.start()


def begun(place: Place) -> Command:
    """A study with its first trials stored."""
    command = place.start(*SIMULATED, trial_s=0.1, constants=SHORT)
    command.wait_for(2)
    return command


def goes_on_through(command: Command, place: Place, outage: AbstractContextManager[None]) -> None:
    """Trials go on in the outage; their results are put aside, and stored after it."""
    with outage:
        command.wait_until(lambda: PUT_ASIDE in command.text)
        command.wait_for(3)
        assert command.process.poll() is None, command.text
    command.wait_until(lambda: "the store works again" in command.text)
    command.finish()
    assert not place.aside()


def test_a_disk_that_is_full(disk: Path, tmp_path: Path, undisturbed: Course) -> None:
    place = Place(tmp_path, url=f"sqlite:///{disk}/runs.db")
    try:
        goes_on_through(begun(place), place, filled(disk))
        assert course(place.trials()) == undisturbed
    finally:
        place.end_all()


def test_a_disk_that_stays_full_leaves_the_results_in_a_file(
    disk: Path, tmp_path: Path, undisturbed: Course
) -> None:
    """The data folder is full as well, so that they are in memory until the end."""
    place = Place(tmp_path, url=f"sqlite:///{disk}/runs.db", home=disk / "home")
    try:
        command = begun(place)
        with filled(disk):
            told = command.finish(expect=1)
        assert "results are kept in memory" in told
        found = MOVE.search(told)
        assert found, told
        assert Path(found[1]).parent == tmp_path
        assert stat.S_IMODE(Path(found[1]).stat().st_mode) == 0o600
        stored = len(place.trials())
        assert stored < len(undisturbed)
        Path(found[2]).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(found[1], found[2])
        told = place.run("resume", "latest")
        assert f"results of {len(undisturbed) - stored} trials are stored from" in told
        assert course(place.trials()) == undisturbed
    finally:
        place.end_all()


def test_a_database_that_another_process_holds(place: Place, undisturbed: Course) -> None:
    goes_on_through(begun(place), place, locked(place.url))
    assert course(place.trials()) == undisturbed


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_database_that_another_process_holds_for_a_minute(
    place: Place, undisturbed: Course
) -> None:
    """With the product's own limits."""
    command = place.start(*SIMULATED, trial_s=4.0)
    command.wait_for(2)
    with locked(place.url):
        time.sleep(60)
        assert PUT_ASIDE in command.text
    command.finish()
    assert course(place.trials()) == undisturbed


def test_a_database_that_is_deleted(place: Place) -> None:
    """SQLite itself would go on writing to the file that has no name any more."""
    command = begun(place)
    for file in place.folder.glob("runs.db*"):
        file.unlink()
    command.wait_until(lambda: PUT_ASIDE in command.text)
    told = command.finish(expect=1)
    (kept,) = place.aside()
    assert f"kept in {kept}" in told
    assert len(kept.read_text().splitlines()) > 10


@contextmanager
def read_only(cluster: Cluster) -> Iterator[None]:
    """It takes no writes, as one that a standby took over from.

    The nearest kin of a disk that becomes read-only: that can't be planted while files are open.
    """
    with psycopg.connect(cluster.url, autocommit=True) as other:
        other.execute("ALTER ROLE autotune SET default_transaction_read_only = on")
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                      "WHERE usename = 'autotune' AND pid <> pg_backend_pid()")  # fmt: skip
        yield
        other.execute("ALTER ROLE autotune RESET default_transaction_read_only")
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                      "WHERE usename = 'autotune' AND pid <> pg_backend_pid()")  # fmt: skip


@pytest.mark.postgresql
@pytest.mark.parametrize("fault", [stopped, read_only])
def test_a_server_that_comes_back(
    cluster: Cluster,
    tmp_path: Path,
    undisturbed: Course,
    fault: Callable[[Cluster], AbstractContextManager[None]],
) -> None:
    place = Place(tmp_path, url=cluster.url)
    try:
        command = begun(place)
        goes_on_through(command, place, fault(cluster))
        assert course(place.trials()) == undisturbed
        assert PASSWORD not in command.text
    finally:
        place.end_all()


@pytest.mark.postgresql
def test_a_server_that_stays_away_costs_nothing_but_a_resume(
    cluster: Cluster, tmp_path: Path, undisturbed: Course
) -> None:
    place = Place(tmp_path, url=cluster.url)
    try:
        command = begun(place)
        with stopped(cluster):
            told = command.finish(expect=1)
        assert PASSWORD not in told
        assert "hint: once it works again: autotune resume" in told
        assert len(place.trials()) < len(undisturbed)
        place.run("resume", "latest")
        assert course(place.trials()) == undisturbed
        files = [path for path in place.home.rglob("*") if path.is_file()]
        assert not any(PASSWORD in path.read_text("utf-8", "replace") for path in files)
    finally:
        place.end_all()

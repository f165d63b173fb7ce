"""What databases run into: full disks, locks, rights, encodings, lost connections."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

from autotune.errors import StorageError
from autotune.storage import open_store
from autotune.storage.engine import build_engine
from tests.conformance.conftest import PASSWORD
from tests.conformance.records import a_study, a_trial, same
from tests.conformance.test_store_migrations import execute

NewDatabase = Callable[..., str]


@pytest.fixture
def new_database(postgres: Path) -> NewDatabase:
    """Makes URLs of whole databases, by name and encoding."""

    def make(name: str, encoding: str = "UTF8") -> str:
        statement = sql.SQL("CREATE DATABASE {} ENCODING {} TEMPLATE template0")
        with psycopg.connect(
            host=str(postgres), user="autotune", password=PASSWORD, dbname="postgres",
            autocommit=True,
        ) as connection:  # fmt: skip
            connection.execute(statement.format(sql.Identifier(name), sql.Literal(encoding)))
        return f"postgresql://autotune:{PASSWORD}@/{name}?host={postgres}"

    return make


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting isn't allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_loses_nothing_that_was_stored(small_disk: Path) -> None:
    with open_store(f"sqlite:///{small_disk}/autotune.db") as store:
        store.add_study(a_study())
        store.add_trial(a_trial(0))
        filler = small_disk / "filler"
        with pytest.raises(OSError, match="No space"):
            filler.write_bytes(bytes(2**20))
        with pytest.raises(StorageError, match="disk is full") as caught:
            store.add_trial(a_trial(1, log_tail="x" * 2**16))
        assert "free some space" in caught.value.hint
        assert same(store.trials("r"), [a_trial(0)])
        filler.unlink()
        store.add_trial(a_trial(1))
        assert same(store.trials("r"), [a_trial(0), a_trial(1)])


@pytest.mark.parametrize("kept", [16, 100, 5000])
def test_a_cut_file_comes_with_advice(tmp_path: Path, kept: int) -> None:
    file = tmp_path / "autotune.db"
    open_store(f"sqlite:///{file}").close()
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(StorageError, match=r"autotune\.db: ") as caught:
        open_store(f"sqlite:///{file}")
    assert "restore it from a backup" in caught.value.hint


def test_close_lets_go_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "autotune.db"
    with open_store(f"sqlite:///{file}") as store:
        store.add_study(a_study())
    # The last connection takes the write-ahead log along, so that one file can be copied.
    assert list(tmp_path.iterdir()) == [file]
    links = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
    assert not any(os.path.realpath(link).startswith(str(file)) for link in links)


@pytest.mark.postgresql
def test_a_lock_on_postgresql_isnt_waited_for_without_limit(
    new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotune.storage.engine.BUSY_S", 0.2)
    url = new_database("locked")
    with open_store(url) as store, psycopg.connect(url) as other:
        store.add_study(a_study())
        other.execute("LOCK TABLE trials")
        with pytest.raises(StorageError, match="lock timeout") as caught:
            store.add_trial(a_trial())
        assert "another process" in caught.value.hint
        other.rollback()
        store.add_trial(a_trial())


@pytest.mark.postgresql
def test_a_server_that_vanishes_is_noticed_by_limits_that_a_url_may_change(
    new_database: NewDatabase,
) -> None:
    url = make_url(f"{new_database('limits')}&keepalives_idle=77")
    engine = build_engine(url.set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        given = driver.info.get_parameters()
    engine.dispose()
    assert given["keepalives_idle"] == "77"
    assert (given["keepalives_interval"], given["keepalives_count"]) == ("5", "3")
    assert (given["connect_timeout"], given["tcp_user_timeout"]) == ("10", "30000")


@pytest.mark.postgresql
def test_a_lost_connection_is_made_again(new_database: NewDatabase) -> None:
    url = new_database("lost")
    with open_store(url) as store:
        store.add_study(a_study())
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert same(store.studies(), [a_study()])


@pytest.mark.postgresql
def test_a_user_who_may_not_make_tables_is_told_how(new_database: NewDatabase) -> None:
    url = new_database("foreign")
    execute(url, "CREATE ROLE guest LOGIN PASSWORD 'guest'")
    with pytest.raises(StorageError, match="permission denied") as caught:
        open_store(url.replace(f"autotune:{PASSWORD}", "guest:guest"))
    assert "GRANT CREATE" in caught.value.hint


@pytest.mark.postgresql
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_may_have_any_encoding(new_database: NewDatabase, encoding: str) -> None:
    with open_store(new_database(f"in_{encoding.lower()}", encoding)) as store:
        store.add_study(a_study("ünï", reason="日本 🚂"))
        assert same(store.studies(), [a_study("ünï", reason="日本 🚂")])


@pytest.mark.postgresql
@pytest.mark.parametrize("value", ["1" * 5000, "[" * 3000 + "]" * 3000])
def test_json_that_only_postgresql_can_read_is_named(new_database: NewDatabase, value: str) -> None:
    url = new_database(f"json_{value[0] == '['}")
    with open_store(url) as store:
        store.add_study(a_study())
        store.add_trial(a_trial())
        execute(url, f"UPDATE trials SET candidate = '{value}'")
        with pytest.raises(StorageError, match="number=0") as caught:
            store.trials("r")
        assert "changed by something else" in caught.value.hint

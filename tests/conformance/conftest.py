"""Stores to hold against the contract: in memory, on SQLite, and on a PostgreSQL of our own."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from autotune.storage import MemoryStore, Store, open_store

PASSWORD = "correct-horse-battery"
POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql)
NewUrl = Callable[[], str]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Path]:
    """The socket folder of a PostgreSQL cluster that lives as long as the tests."""
    programs = _postgres_programs()
    # Short and in /tmp: the path of a Unix socket has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        yield from _run_postgres(programs, folder)
    finally:
        shutil.rmtree(folder)


def _postgres_programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if not found and not on_path:
        pytest.skip("PostgreSQL's initdb and pg_ctl aren't installed")
    return found[-1].parent if found else Path(str(on_path)).resolve().parent


def _run_postgres(programs: Path, folder: Path) -> Iterator[Path]:
    as_user = _server_user(folder)
    password = folder / "password"
    password.write_text(PASSWORD)
    password.chmod(0o644)

    def run(*command: str | Path) -> None:
        log = folder / "log"
        with log.open("ab") as out:
            done = subprocess.run(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                timeout=60, check=False, **as_user,
            )  # fmt: skip
        assert done.returncode == 0, log.read_text()

    data = folder / "data"
    run(
        programs / "initdb", "--pgdata", data, "--username", "autotune", "--pwfile", password,
        "--auth", "scram-sha-256", "--no-sync", "--no-locale", "--encoding", "UTF8",
    )  # fmt: skip
    # No TCP: no port to collide on. No fsync: this cluster's data is worth nothing.
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    run(programs / "pg_ctl", "start", "--pgdata", data, "--wait", "--options", options)
    try:
        yield folder
    finally:
        run(programs / "pg_ctl", "stop", "--pgdata", data, "--mode", "immediate")


def _server_user(folder: Path) -> dict[str, Any]:
    """Arguments for subprocess: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("PostgreSQL doesn't run as root, and there is no user postgres")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _administrator(postgres: Path) -> psycopg.Connection:
    return psycopg.connect(
        host=str(postgres), user="autotune", password=PASSWORD, dbname="postgres", autocommit=True
    )


_NUMBERS = count()


@pytest.fixture
def postgres_url(postgres: Path) -> NewUrl:
    """Makes URLs of new, empty PostgreSQL schemas, which are made faster than databases."""

    def new_url() -> str:
        name = f"autotune_{next(_NUMBERS)}"
        with _administrator(postgres) as connection:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        options = f"options=-csearch_path%3D{name}"
        return f"postgresql://autotune:{PASSWORD}@/postgres?host={postgres}&{options}"

    return new_url


@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with our tables, to copy: quicker than to make them for every test."""
    file = tmp_path_factory.mktemp("sqlite") / "autotune.db"
    open_store(f"sqlite:///{file}").close()
    return file


@pytest.fixture
def sqlite_url(sqlite_file: Path, tmp_path: Path) -> str:
    """The URL of an SQLite file with our tables, empty."""
    return f"sqlite:///{shutil.copy(sqlite_file, tmp_path)}"


@pytest.fixture(params=["sqlite", POSTGRESQL])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> NewUrl:
    """Makes URLs of new, empty databases."""
    if request.param == "postgresql":
        made: NewUrl = request.getfixturevalue("postgres_url")
        return made
    return lambda: f"sqlite:///{tmp_path}/{next(_NUMBERS)}.db"


@pytest.fixture
def url(new_url: NewUrl) -> str:
    """The URL of a new, empty database."""
    return new_url()


@pytest.fixture(scope="session")
def postgres_store(postgres: Path) -> Iterator[Store]:
    """One store for all tests of what stores promise."""
    with open_store(f"postgresql://autotune:{PASSWORD}@/postgres?host={postgres}") as opened:
        yield opened


@pytest.fixture(params=["memory", "sqlite", POSTGRESQL])
def store(request: pytest.FixtureRequest, sqlite_url: str) -> Iterator[Store]:
    """An empty store of each kind."""
    if request.param == "memory":
        yield MemoryStore()
    elif request.param == "sqlite":
        with open_store(sqlite_url) as opened:
            yield opened
    else:
        shared: Store = request.getfixturevalue("postgres_store")
        with _administrator(request.getfixturevalue("postgres")) as connection:
            connection.execute("TRUNCATE studies, trials, windows, best_configurations, leases")
        yield shared

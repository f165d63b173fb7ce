"""Stores to hold against the contract: in memory, on SQLite, and on a PostgreSQL of our own."""

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from autotune.storage import MemoryStore, Store, open_store
from autotune.storage.mirrored import MirroredStore
from autotune.storage.objects import FolderObjects
from tests.postgres import PASSWORD, running_cluster

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql)
NewUrl = Callable[[], str]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Path]:
    """The socket folder of a PostgreSQL cluster that lives as long as the tests."""
    with running_cluster() as cluster:
        yield cluster.folder


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


@pytest.fixture(params=["memory", "mirrored", "sqlite", POSTGRESQL])
def store(request: pytest.FixtureRequest, sqlite_url: str, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind."""
    if request.param == "memory":
        yield MemoryStore()
    elif request.param == "mirrored":
        with MirroredStore(MemoryStore(), FolderObjects(tmp_path / "mirror"), print) as opened:
            yield opened
    elif request.param == "sqlite":
        with open_store(sqlite_url) as opened:
            yield opened
    else:
        shared: Store = request.getfixturevalue("postgres_store")
        with _administrator(request.getfixturevalue("postgres")) as connection:
            connection.execute(
                "TRUNCATE studies, trials, windows, best_configurations, leases, jobs"
            )
        yield shared

"""Databases that somebody crafted: whatever is in them, it is read or refused, and never more.

The values are put into every column of every table, one at a time and many at once.
"""

import random
import sqlite3
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from sqlalchemy import make_url

from autotune.errors import StorageError, UnreadableError
from autotune.storage import Store, open_store
from autotune.storage.engine import build_engine
from autotune.storage.lease import Owner
from autotune.storage.tables import Base
from tests.conformance.records import TARGET, a_best, a_study, a_trial

ODD: list[object] = [
    None, "", "x", "\0", "\x1b]0;owned\x07", "../../../etc/passwd", b"", b"\xff\xfe",
    0, -1, 2**63 - 1, 1e308, "nan", "NaN", "1" * 5000, "true", "null", "[]", "{}", "[" * 3000,
    '{"a": ' * 500, '"\\ud800"', '{"__class__": "os.system"}', "cos\nsystem\n(S'true'\ntR.",
    "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+23:59", "2025-01-01",
]  # fmt: skip
OWNER = Owner(token="t", host="h", pid=1)


def rewritten(path: Path) -> sqlite3.Connection:
    """The file, its tables without constraints: nothing keeps a value out of them."""
    connection = sqlite3.connect(path, isolation_level=None)
    for name in Base.metadata.tables:
        rows = connection.execute(f"SELECT * FROM {name}").fetchall()
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
        quoted = ", ".join(f'"{column}"' for column in columns)
        connection.execute(f"ALTER TABLE {name} RENAME TO old_{name}")
        connection.execute(f"CREATE TABLE {name} ({quoted})")
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    return connection


@pytest.fixture
def crafted(sqlite_url: str, tmp_path: Path) -> sqlite3.Connection:
    with open_store(sqlite_url) as store:
        store.add_study(a_study())
        store.add_trial(a_trial(0))
        store.save_best(a_best())
        store.take_lease("r", OWNER, 60.0)
    connection = rewritten(Path(sqlite_url.removeprefix("sqlite:///")))
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def ignore(error: UnreadableError) -> None:
    assert error.key is not None
    assert error.hint


USES: list[Callable[[Store], object]] = [
    lambda store: store.studies(ignore),
    lambda store: store.trials("r", ignore),
    lambda store: store.bests(ignore),
    lambda store: store.leases(ignore),
    lambda store: store.trial_counts(),
    lambda store: store.study("r"),
    lambda store: store.studies(),
    lambda store: store.trials("r"),
    lambda store: store.best(TARGET),
    lambda store: store.take_lease("r", OWNER, 1.0),
]
TOLERANT = 5
"""The first of them name what they can't read and go on."""


def use(store: Store) -> None:
    for number, call in enumerate(USES):
        refusable = number >= TOLERANT
        with suppress(StorageError) if refusable else nullcontext():
            call(store)


@pytest.mark.parametrize("table", list(Base.metadata.tables))
def test_odd_values_in_any_column_are_read_or_refused(
    sqlite_url: str, crafted: sqlite3.Connection, table: str
) -> None:
    chance = random.Random(table)
    with open_store(sqlite_url) as store:
        for name in [column.name for column in Base.metadata.tables[table].columns]:
            kept = crafted.execute(f'SELECT rowid, "{name}" FROM {table}').fetchall()
            for value in chance.sample(ODD, 5):
                crafted.execute(f'UPDATE {table} SET "{name}" = ?', (value,))
                use(store)
            for rowid, old in kept:
                crafted.execute(f'UPDATE {table} SET "{name}" = ? WHERE rowid = ?', (old, rowid))
    crafted.close()


def test_many_odd_values_at_once_are_read_or_refused(
    sqlite_url: str, crafted: sqlite3.Connection
) -> None:
    chance = random.Random(7)
    with open_store(sqlite_url) as store:
        for _ in range(20):
            table = chance.choice(list(Base.metadata.tables.values()))
            values = [chance.choice(ODD) for _ in table.columns]
            marks = ", ".join("?" * len(values))
            crafted.execute(f"INSERT INTO {table.name} VALUES ({marks})", values)
            use(store)
    crafted.close()


def test_what_a_file_brings_along_calls_nothing_outside_of_it(
    sqlite_url: str, crafted: sqlite3.Connection
) -> None:
    """A view in the place of a table, which calls a function with a side effect."""
    columns = [f'"{column.name}"' for column in Base.metadata.tables["studies"].columns]
    calls = ", ".join(f"load_extension('x') AS {column}" for column in columns)
    crafted.execute("DROP TABLE studies")
    crafted.execute(f"CREATE VIEW studies AS SELECT {calls}")
    crafted.close()
    with open_store(sqlite_url) as store, pytest.raises(StorageError, match="unsafe use of load_"):
        store.studies()


def test_what_views_and_triggers_may_call_is_limited(sqlite_url: str) -> None:
    engine = build_engine(make_url(sqlite_url))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA trusted_schema").scalar() == 0
    engine.dispose()


def test_a_row_without_its_key_is_left_out(sqlite_url: str, crafted: sqlite3.Connection) -> None:
    crafted.execute("INSERT INTO studies (status) VALUES ('running')")
    crafted.close()
    broken: list[UnreadableError] = []
    with open_store(sqlite_url) as store:
        assert [study.run_id for study in store.studies(broken.append)] == ["r"]
        with pytest.raises(UnreadableError, match="key: None is missing in a row"):
            store.studies()
    assert len(broken) == 1

"""Connections to SQLite and PostgreSQL, and their errors as ours."""

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError, SQLAlchemyError

from autotune.errors import FieldError, OutageError, StorageError
from autotune.storage.columns import parse_document

BUSY_S = 30.0
"""How long to wait for another writer before giving up."""
CHANGED = "the record was changed by something else than autotune; restore it from a backup"
"""What to do about a record that can't be understood."""
_WRITES = "autotune_writes"
_SQLITE_HINTS = {
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a backup, or name another one",
    sqlite3.SQLITE_NOTADB: "the file is damaged; restore it from a backup, or name another one",
    sqlite3.SQLITE_FULL: "free some space on the file's disk; what was stored before is kept",
    sqlite3.SQLITE_IOERR: "see that the file's disk works and isn't full",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "make the file and its folder writable",
}
_SERVER_LIMITS = {
    "connect_timeout": "10",
    # Milliseconds: a server that vanished without a word is noticed, not waited for.
    "tcp_user_timeout": "30000",
    # Also one that vanished after it got a question; Linux itself first asks after two hours.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
"""libpq's options, where the URL doesn't set them."""
_LOCK_NOT_AVAILABLE = "55P03"
_INSUFFICIENT_PRIVILEGE = "42501"
_PASSWORD = re.compile(r"(password=)[^&]*")


def build_engine(url: URL) -> Engine:
    """Connections to `url`, made when first needed. Raises ImportError without the driver."""
    if url.get_backend_name() == "sqlite":
        return _build_sqlite(url)
    limits = {name: url.query.get(name, value) for name, value in _SERVER_LIMITS.items()}
    # Without it a database of encoding SQL_ASCII, initdb's choice under LANG=C, answers bytes.
    limits["client_encoding"] = "utf8"
    engine = create_engine(
        url, connect_args=limits, pool_pre_ping=True, json_deserializer=parse_document
    )
    event.listen(engine, "connect", _on_connect_server)
    return engine


def for_writing(engine: Engine) -> Engine:
    """The same connections, with transactions that will write."""
    return engine.execution_options(**{_WRITES: True})


def masked(url: URL) -> str:
    """`url` as messages may show it."""
    return mask_query(url.render_as_string(hide_password=True))


def mask_query(text: str) -> str:
    """`text` without the passwords that libpq takes as options of a URL."""
    return _PASSWORD.sub(r"\1***", text)


@contextmanager
def storage_errors(database: str) -> Iterator[None]:
    """Turn what goes wrong inside into StorageErrors that name `database`."""
    try:
        yield
    except FieldError as error:
        raise StorageError(f"{database}: {error}", hint=CHANGED) from error
    except DBAPIError as error:
        reason = " ".join(str(error.orig).split())
        raise OutageError(f"{database}: {reason}", hint=_hint(error)) from error
    except SQLAlchemyError as error:
        raise OutageError(f"{database}: {error}") from error
    except (UnicodeError, OverflowError) as error:
        # A driver's: text or numbers that the database has no place for.
        raise StorageError(f"{database}: {error}") from error


def _hint(error: DBAPIError) -> str:
    if isinstance(error.orig, sqlite3.Error):
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        return _busy_hint() if code == sqlite3.SQLITE_BUSY else _SQLITE_HINTS.get(code, "")
    state = getattr(error.orig, "sqlstate", None)
    if state == _LOCK_NOT_AVAILABLE:
        return _busy_hint()
    if state == _INSUFFICIENT_PRIVILEGE:
        return "have the database's owner run: GRANT CREATE, USAGE ON SCHEMA public TO the user"
    # Without a statement it was connecting that failed.
    if isinstance(error, OperationalError) and error.statement is None:
        return "check that the server is up, and the URL's host, port, user, password and name"
    return ""


def _busy_hint() -> str:
    return f"another process has held the database for {BUSY_S:.0f} s; end it or wait"


def _is_busy(error: sqlite3.Error) -> bool:
    # The low byte is the error, the others say which kind of it.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _build_sqlite(url: URL) -> Engine:
    # isolation_level None keeps the driver from beginning transactions on its own, so that DDL is
    # part of them and a writer can take the lock at their beginning.
    engine = create_engine(url, connect_args={"timeout": BUSY_S, "isolation_level": None})
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    event.listen(engine, "checkout", partial(_on_checkout, url.database or ""))
    return engine


def _on_checkout(path: str, _connection: object, record: Any, _proxy: object) -> None:
    """Give up a connection to a file that has been deleted or replaced: what it writes is lost.

    The pool then opens what is at `path` now.
    """
    now = _identity(path)
    if record.info.setdefault("file", now) != now:
        raise DisconnectionError(f"{path} is another file now")


def _identity(path: str) -> tuple[int, int] | None:
    """Of the file at `path`; None if there is none, as for a database in memory."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
    _enter_wal(connection)
    # In WAL mode anything less may lose a committed transaction with the machine's power.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    # What a crafted file's views and triggers may call: nothing that reaches out of it.
    connection.execute("PRAGMA trusted_schema = OFF")


def _on_connect_server(connection: Any, _record: object) -> None:
    # PostgreSQL waits for ever by itself.
    connection.execute(f"SET lock_timeout = '{BUSY_S * 1000:.0f}ms'")
    connection.commit()


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Let readers go on beside a writer. SQLite doesn't wait by itself for a lock it needs here."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _on_begin(connection: Connection) -> None:
    # A transaction that reads first and writes later fails at once when another one wrote between.
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

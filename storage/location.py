"""From what a person gives as --storage to an open store."""

import os
import re
from pathlib import Path

from sqlalchemy import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError

from autotune.errors import FieldError, UserError
from autotune.storage.base import Store
from autotune.storage.engine import build_engine, mask_query, masked
from autotune.storage.folder import home_folder
from autotune.storage.migrate import migrate
from autotune.storage.sql import SqlStore

OPTION = "--storage"
_FORMS = ("sqlite:///FILE", "postgresql://USER@HOST/NAME")
_DRIVERS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
    # libpq takes both spellings, so people have both in their environment.
    "postgres": "postgresql+psycopg",
}
# From the user's colon to the last @, also where the scheme is misspelled or forgotten.
_CREDENTIALS = re.compile(r"^((?:[\w+]+:/+)?+[^:/@]*:).*@")
# What is in a port's place may be a password, its host forgotten.
_NO_PORT = re.compile(r"^([^:/]+://[^:/@]*:)(?!\d+(?:[/?]|$))[^/?@]+(?=[/?]|$)")
_SQLITE_HEADER = b"SQLite format 3\0"


def open_store(url: str) -> Store:
    """The store at `url`, its tables made or upgraded.

    Raises FieldError for a URL that can't be used, UserError without PostgreSQL's driver, and
    StorageError for a database that can't be reached or isn't ours to use.
    """
    engine = _engine(_checked(url))
    try:
        migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return SqlStore(engine)


def _checked(text: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise _refusal(text, "is not a database's URL") from None
    if url.drivername not in _DRIVERS:
        kinds = ("sqlite", "postgresql")
        raise FieldError(
            OPTION, url.drivername, "is not a kind of database that is used here",
            alternatives=kinds,
        )  # fmt: skip
    url = url.set(drivername=_DRIVERS[url.drivername])
    return _checked_file(url, text) if url.drivername == "sqlite" else _checked_server(url, text)


def _refusal(text: str, rule: str, *, hint: str = "") -> FieldError:
    """The error about all of the URL, whose form may be too broken to know the password in it."""
    shown = mask_query(_NO_PORT.sub(r"\1***", _CREDENTIALS.sub(r"\1***@", text)))
    return FieldError(OPTION, shown, rule, alternatives=_FORMS, hint=hint)


def _checked_server(url: URL, text: str) -> URL:
    if "@" in (url.host or "") + (url.database or ""):
        raise _refusal(text, "has more than one @", hint="write an @ of the password as %40")
    ports = url.query.get("port", ())
    for port in [ports] if isinstance(ports, str) else ports:
        if not port.isdecimal():
            raise FieldError(f"{OPTION}: port", port, "has to be a whole number")
    return url


def _checked_file(url: URL, text: str) -> URL:
    if url.query or url.host:
        raise _refusal(text, "has more than a file's path", hint="a path's own ? is written %3F")
    if url.database in (None, "", ":memory:"):
        raise _refusal(text, "names no file, and what is in memory can't be kept")
    # Absolute, so that messages name the file wherever they are read.
    try:
        path = _in_home(Path(str(url.database))).absolute()
        _check_path(path)
    except RuntimeError as error:
        raise FieldError(OPTION, url.database, "is in the home of an unknown user") from error
    except OSError as error:
        raise FieldError(OPTION, url.database, f"can't be used: {error.strerror}") from error
    return url.set(database=str(path))


def _in_home(path: Path) -> Path:
    if path.parts[0] == "~":
        return home_folder(os.environ).joinpath(*path.parts[1:])
    return path.expanduser()


def _check_path(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise FieldError(
            OPTION, str(path), "is in a folder that doesn't exist", hint=f"mkdir -p {folder}"
        )
    if path.exists() and not path.is_file():
        raise FieldError(OPTION, str(path), "is not a file")
    # SQLite makes files beside the database, and needs write access even to read in WAL mode.
    for needed in [folder, path] if path.exists() else [folder]:
        if not os.access(needed, os.R_OK | os.W_OK, effective_ids=True):
            raise FieldError(OPTION, str(path), f"can't be used: {str(needed)!r} isn't writable")
    if path.exists() and not _looks_like_sqlite(path):
        raise FieldError(OPTION, str(path), "is not an SQLite database")


def _looks_like_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        header = file.read(len(_SQLITE_HEADER))
    # An empty file is a database without tables.
    return header in (b"", _SQLITE_HEADER)


def _engine(url: URL) -> Engine:
    try:
        engine = build_engine(url)
        if url.get_backend_name() != "sqlite":
            _check_options(url)
    except ImportError as error:
        raise UserError(
            f"{OPTION}: {masked(url)!r} needs PostgreSQL's driver psycopg: {error}",
            hint="pip install 'autotune-train[postgresql]'",
        ) from error
    return engine


def _check_options(url: URL) -> None:
    """Let through libpq's options only: the driver has some of its own, as autocommit."""
    from psycopg import ProgrammingError  # noqa: PLC0415 - optional
    from psycopg.conninfo import make_conninfo  # noqa: PLC0415

    for name, value in url.query.items():
        try:
            make_conninfo("", **{name: value if isinstance(value, str) else value[-1]})
        except ProgrammingError as error:
            raise FieldError(OPTION, name, "is not an option of PostgreSQL's URLs") from error

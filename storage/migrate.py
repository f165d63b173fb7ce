"""Brings a database's tables to what this version needs.

A change of the tables is a file in `migrations/versions` and REVISION set to it. There is no way
back: an older version refuses the newer database.
"""

from pathlib import Path
from threading import Lock

from sqlalchemy import Connection, Engine, String, column, func, inspect, select, table, text

from autotune.errors import StorageError
from autotune.storage.engine import BUSY_S, for_writing, masked, storage_errors
from autotune.storage.tables import Base

REVISION = "0003"
"""The newest revision. A constant, so that a database that is up to date opens without Alembic."""
VERSION_TABLE = "autotune_version"
"""Not Alembic's own name for it: another program's tables may be in the same database."""
_FOLDER = Path(__file__).parent / "migrations"
# Alembic keeps the migration under way in a global of its own.
_ALEMBIC = Lock()
_ADVISORY_LOCK = 0x6175746F74756E65
"""Of PostgreSQL's 64-bit lock numbers: "autotune" in ASCII."""


def migrate(engine: Engine) -> None:
    """Create or upgrade the tables, once, whoever else opens the same database now.

    Raises StorageError for a database of a newer version, or with another program's tables.
    """
    name = masked(engine.url)
    with storage_errors(name):
        with engine.connect() as connection:
            if _revision(connection) == REVISION:
                return
        with _ALEMBIC, for_writing(engine).begin() as connection:
            _lock(connection)
            found = _revision(connection)
            if found is None:
                _check_free(connection, name)
            if found != REVISION:
                _upgrade(connection, found, name)


def _lock(connection: Connection) -> None:
    """Wait for others that migrate. On SQLite a writing transaction is the lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL lock_timeout = '{BUSY_S:.0f}s'"))
        connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version = table(VERSION_TABLE, column("version_num", String))
    return connection.scalar(select(version.c.version_num))


def _check_free(connection: Connection, name: str) -> None:
    taken = sorted(set(Base.metadata.tables) & set(inspect(connection).get_table_names()))
    if taken:
        raise StorageError(
            f"{name}: the tables {', '.join(taken)} are there, and autotune didn't make them",
            hint="give autotune a database of its own",
        )


def _upgrade(connection: Connection, found: str | None, name: str) -> None:
    # Only here: Alembic takes longer to import than a database that is up to date to open.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    # Alembic's options interpolate %.
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    known = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    if found is not None and found not in known:
        raise StorageError(
            f"{name}: its tables have revision {found!r}, made by a newer autotune; "
            f"this one knows up to {REVISION!r}",
            hint="upgrade autotune-train, or name another database with --storage",
        )
    command.upgrade(config, "head")

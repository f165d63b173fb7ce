"""Brings a database to the schema of this version. Revisions are in versions/."""

from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from autotune.errors import StorageError
from autotune.storage.tables import Base

_VERSION_TABLE = "autotune_schema"


def upgrade(connection: Connection, place: str) -> None:
    """Run the missing revisions. Raises StorageError for a database of a later version."""
    scripts = _scripts()
    current = _context(connection).get_current_revision()
    known = {script.revision for script in scripts.walk_revisions()}
    if current is not None and current not in known:
        raise StorageError(
            f"{place} was written by a later version of autotune (schema {current})",
            hint="upgrade autotune, or name another database with --storage",
        )
    head = scripts.get_current_head()
    if current == head:
        return
    with EnvironmentContext(
        Config(),
        scripts,
        fn=lambda revision, _context: scripts._upgrade_revs("head", revision),
    ) as environment:
        environment.configure(
            connection=connection, version_table=_VERSION_TABLE, transactional_ddl=True
        )
        environment.run_migrations()


def differences(connection: Connection) -> list[object]:
    """What the schema in the database lacks or has beyond the tables; empty if they agree."""
    return list(compare_metadata(_context(connection), Base.metadata))


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(Path(__file__).parent))


def _context(connection: Connection) -> MigrationContext:
    return MigrationContext.configure(connection, opts={"version_table": _VERSION_TABLE})

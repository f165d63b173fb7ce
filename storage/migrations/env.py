"""What Alembic runs: the revisions, inside the transaction that the caller began."""

from alembic import context

from autotune.storage.migrate import VERSION_TABLE
from autotune.storage.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
)
context.run_migrations()

"""A row that may be there already."""

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from autotune.storage.rows import Row
from autotune.storage.tables import Base


def insert_new(session: Session, table: type[Base], values: Row) -> bool:
    """Whether there was no such row; one being inserted elsewhere is waited for."""
    of_dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    statement = of_dialect.insert(table).values(values).on_conflict_do_nothing()
    # On the connection and with the option: else the number is unknown on some databases.
    result = session.connection().execute(statement, execution_options={"preserve_rowcount": True})
    return result.rowcount == 1

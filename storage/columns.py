"""Column types that hold what the codec encodes, alike on SQLite and PostgreSQL.

They pass on what can't be understood as it is, so that decoding can name the record and the field.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, Double, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

from autotune.model.codec import Json


class NotJson:
    """What a JSON column holds after somebody broke it."""

    def __init__(self, text: object) -> None:
        self.text = text


def parse_document(text: str | bytes) -> Json:
    """The JSON in `text`, or NotJson; PostgreSQL too lets in more than Python can read."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return NotJson(text)


class Document(TypeDecorator[Json]):
    """Encoded data as JSON text; None is NULL.

    Free text is kept this way too: PostgreSQL's text has no place for the NUL characters and lone
    surrogates that the log of a crashed process may hold, JSON escapes them.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # Not jsonb, which refuses \u0000.
        return dialect.type_descriptor(
            JSON(none_as_null=True) if dialect.name == "postgresql" else Text()
        )

    def process_bind_param(self, value: Json, dialect: Dialect) -> Json:
        if value is None or dialect.name == "postgresql":
            return value
        return json.dumps(value, allow_nan=False)

    def process_result_value(self, value: Any, dialect: Dialect) -> Json:
        if value is None or dialect.name == "postgresql":
            return value
        return parse_document(value)


class Timestamp(TypeDecorator[Json]):
    """An encoded time, kept in UTC. SQLite has no such type: text there, which sorts by time."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(
            DateTime(timezone=True) if dialect.name == "postgresql" else Text()
        )

    def process_bind_param(self, value: Json, dialect: Dialect) -> Json:
        time = datetime.fromisoformat(value).astimezone(UTC)
        return time if dialect.name == "postgresql" else time.isoformat(timespec="microseconds")

    def process_result_value(self, value: Any, dialect: Dialect) -> Json:
        # PostgreSQL answers in the session's zone.
        return value.astimezone(UTC) if isinstance(value, datetime) else value


class Number(TypeDecorator[Json]):
    """An encoded float. SQLite turns NaN into NULL, so there it stays the codec's text."""

    impl = Double
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[Json], Json] | None:
        # Not process_bind_param: what it makes of a value, Double would make a float again.
        return float if dialect.name == "postgresql" else None

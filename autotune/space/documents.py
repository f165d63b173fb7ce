"""Entries of a YAML file as dataclasses, with every mistake in them and not only the first."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from autotune.errors import FieldError
from autotune.model import decode
from autotune.yaml_reader import Source

T = TypeVar("T")


def list_in(source: Source, key: str, mistakes: list[FieldError]) -> list[Any]:
    """The list under the document's one key; anything else in the document is a mistake."""
    data = source.data
    if not isinstance(data, dict) or not isinstance(data.get(key), list):
        found = data.get(key) if isinstance(data, dict) else data
        rule = f"has to be a list of {key}, each a mapping that starts with its name"
        mistakes.append(source.error(FieldError(key, found, rule)))
        return []
    for other in data:
        if other != key:
            mistakes.append(
                source.error(FieldError(other, other, "is no key here", alternatives=[key]))
            )
    return list(data[key])


def decode_fields(kind: type[T], data: Any, path: str, mistakes: list[FieldError]) -> T | None:
    """`data` as a `kind`, each field decoded by itself; None if there are mistakes."""
    if not is_dataclass(kind):
        raise TypeError(kind)
    if not isinstance(data, Mapping):
        mistakes.append(FieldError(path, data, "has to be a mapping of fields"))
        return None
    known = {field.name: field for field in fields(kind)}
    before = len(mistakes)
    values: dict[str, Any] = {}
    hints: dict[str, Any] = get_type_hints(kind)
    for key, value in data.items():
        if key not in known:
            rule = "is unknown"
            mistakes.append(FieldError(f"{path}.{key}", key, rule, alternatives=known))
            continue
        try:
            values[key] = decode(hints[key], value, f"{path}.{key}")
        except FieldError as error:
            mistakes.append(error)
    for name, field in known.items():
        is_required = field.default is MISSING and field.default_factory is MISSING
        if is_required and name not in data:
            mistakes.append(FieldError(f"{path}.{name}", None, "is required but missing"))
    if len(mistakes) > before:
        return None
    try:
        return kind(**values)
    except FieldError as error:
        mistakes.append(error.within(path))
        return None

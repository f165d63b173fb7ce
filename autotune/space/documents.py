"""Entries of a YAML file as dataclasses, with every mistake in them and not only the first."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from autotune.errors import ABSENT, FieldError, closest
from autotune.model import decode
from autotune.yaml_reader import Source

T = TypeVar("T")


def list_in(source: Source, key: str, mistakes: list[FieldError]) -> list[Any]:
    """The list under the document's one key; anything else in the document is a mistake."""
    data = source.data
    if isinstance(data, dict):
        for other in data:
            if other != key:
                mistakes.append(FieldError(other, other, "is no key here", alternatives=[key]))
    found = data.get(key, ABSENT) if isinstance(data, dict) else data
    if isinstance(found, list):
        return found
    rule = f"has to be a list of {key}, each a mapping that starts with its name"
    mistakes.append(FieldError(key, found, rule))
    return []


def decode_fields(
    kind: type[T],
    data: Any,
    path: str,
    mistakes: list[FieldError],
    stand_ins: Mapping[str, object] | None = None,
) -> T | None:
    """What can be read of `data` as a `kind`: a field with a mistake in it has its default.

    `stand_ins` are for required fields; without them a mistake in one makes the result None.
    """
    if not is_dataclass(kind):
        raise TypeError(kind)
    if not isinstance(data, Mapping):
        mistakes.append(FieldError(path, data, "has to be a mapping of fields"))
        return None
    known = {field.name: field for field in fields(kind)}
    hints: dict[str, Any] = get_type_hints(kind)
    values = dict(stand_ins or {})
    for key, value in data.items():
        if key not in known:
            rule = "is unknown"
            mistakes.append(FieldError(_join(path, key), key, rule, alternatives=known))
            continue
        before = len(mistakes)
        read = _read(hints[key], value, _join(path, key), mistakes)
        if read is not None or len(mistakes) == before:
            values[key] = read
    mistakes += _missing(known, data, path)
    try:
        return kind(**values) if _required(known) <= set(values) else None
    except FieldError as error:
        mistakes.append(error.within(path) if path else error)
        return None


def _required(known: Mapping[str, Field[Any]]) -> set[str]:
    return {
        name
        for name, field in known.items()
        if field.default is MISSING and field.default_factory is MISSING
    }


def _missing(
    known: Mapping[str, Field[Any]], data: Mapping[str, Any], path: str
) -> list[FieldError]:
    """What is required and not there; under a misspelt key it has been remarked already."""
    meant = {closest(key, known) for key in data if key not in known}
    return [
        FieldError(_join(path, name), ABSENT, "is required but missing")
        for name in known
        if name in _required(known) and name not in data and name not in meant
    ]


def _read(kind: Any, data: Any, path: str, mistakes: list[FieldError]) -> Any:
    """As model's `decode`, but it goes on after a mistake; None if nothing came of it."""
    arguments = get_args(kind)
    if get_origin(kind) in (Union, UnionType) and data is not None:
        options = [option for option in arguments if option is not NoneType]
        kind = options[0] if len(options) == 1 else kind
    if is_dataclass(kind) and isinstance(kind, type):
        return decode_fields(kind, data, path, mistakes)
    if get_origin(kind) is tuple and isinstance(data, Sequence) and not isinstance(data, str):
        items = [_read(arguments[0], item, f"{path}[{i}]", mistakes) for i, item in enumerate(data)]
        return None if any(item is None for item in items) else tuple(items)
    if get_origin(kind) is Mapping and isinstance(data, Mapping):
        read = {k: _read(arguments[1], v, _join(path, k), mistakes) for k, v in data.items()}
        return {key: value for key, value in read.items() if value is not None}
    try:
        return decode(kind, data, path)
    except FieldError as error:
        mistakes.append(error)
        return None


def _join(path: str, name: str) -> str:
    """Without a `path` the document itself is meant."""
    return f"{path}.{name}" if path else name

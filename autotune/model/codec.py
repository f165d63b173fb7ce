"""Frozen dataclasses to JSON-compatible data and back, strictly.

One mechanism for the trial protocol, the store's JSON columns and the YAML files, on the standard
library alone because the trainers use it too. JSON has no NaN or infinity (PostgreSQL refuses
them), so non-finite floats travel as the strings "nan", "inf" and "-inf".
"""

import dataclasses
import math
import types
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from autotune.errors import ABSENT, FieldError

T = TypeVar("T")
Json = Any
_NON_FINITE = ("nan", "inf", "-inf")


def encode(value: object) -> Json:
    """`value` as dicts, lists, strings, numbers, booleans and None only."""
    if value is None or type(value) in (str, int, bool):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: encode(getattr(value, name)) for name in _fields(type(value))}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, str | int | float):
        return value
    raise TypeError(f"can't encode a {type(value).__name__}: {value!r}")


def decode(kind: type[T], data: Json, field: str = "") -> T:
    """An instance of `kind` from what `encode` made, or what a person wrote.

    Raises FieldError with the path of the first field that doesn't fit.
    """
    result: T = _decode(kind, data, field)
    return result


def _decode(kind: Any, data: Json, field: str) -> Any:
    if kind is Any:
        return data
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, data, field)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(kind), data, field)
    if origin is tuple:
        return _decode_tuple(get_args(kind)[0], data, field)
    if origin is not None and issubclass(origin, Mapping):
        return _decode_mapping(get_args(kind)[1], data, field)
    if isinstance(kind, type) and issubclass(kind, Mapping):
        value_kind = get_args(vars(kind)["__orig_bases__"][0])[1]
        build: Any = kind
        return build(_decode_mapping(value_kind, data, field))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _decode_enum(kind, data, field)
    if kind is datetime:
        return _decode_time(data, field)
    return _decode_scalar(kind, data, field)


@cache
def _fields(kind: Any) -> dict[str, "dataclasses.Field[Any]"]:
    return {field.name: field for field in dataclasses.fields(kind)}


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode_dataclass(kind: Any, data: Json, field: str) -> Any:
    if not isinstance(data, Mapping):
        raise FieldError(field or kind.__name__, data, "has to be a mapping of fields")
    fields = _fields(kind)
    for key in data:
        if key not in fields:
            raise FieldError(_join(field, str(key)), key, "is unknown", alternatives=fields)
    values: dict[str, Any] = {}
    for name, spec in fields.items():
        if name in data:
            values[name] = _decode(_hints(kind)[name], data[name], _join(field, name))
        elif spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING:
            raise FieldError(_join(field, name), ABSENT, "is required but missing")
    try:
        return kind(**values)
    except FieldError as error:
        raise error.within(field) if field else error from None


def _decode_union(kinds: tuple[Any, ...], data: Json, field: str) -> Any:
    if data is None and types.NoneType in kinds:
        return None
    options = [kind for kind in kinds if kind is not types.NoneType]
    if len(options) == 1:
        return _decode(options[0], data, field)
    if all(map(dataclasses.is_dataclass, options)):
        return _decode(_likeliest(options, data), data, field)
    # bool is a subclass of int, and 1 == True: try the exact type first.
    exact = [kind for kind in options if type(data) is kind]
    for kind in exact or options:
        try:
            return _decode(kind, data, field)
        except FieldError:
            continue
    *most, last = map(_in_words, options)
    words = f"{', '.join(most)} or {last}" if most else last
    raise FieldError(field, data, f"has to be {words}")


def _in_words(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return "a list of them"
    return _WORDS.get(kind, getattr(kind, "__name__", str(kind)))


_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def _likeliest(kinds: list[Any], data: Json) -> Any:
    """The dataclass with most of the keys of `data`, so that an error names what is wrong there."""
    keys = set(data) if isinstance(data, Mapping) else set()
    return max(kinds, key=lambda kind: len(keys & _fields(kind).keys()))


def _decode_tuple(kind: Any, data: Json, field: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise FieldError(field, data, "has to be a list")
    return tuple(_decode(kind, item, f"{field}[{i}]") for i, item in enumerate(data))


def _decode_mapping(kind: Any, data: Json, field: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise FieldError(field, data, "has to be a mapping")
    result: dict[str, Any] = {}
    for key, item in data.items():
        if not isinstance(key, str):
            raise FieldError(field, key, "has to be a string, as every key here")
        result[key] = _decode(kind, item, _join(field, key))
    return result


def _decode_enum(kind: type[Enum], data: Json, field: str) -> Enum:
    if isinstance(data, str) and (member := _members(kind).get(data)) is not None:
        return member
    raise FieldError(field, data, "is not known", alternatives=[m.value for m in kind])


@cache
def _members(kind: type[Enum]) -> dict[object, Enum]:
    return {member.value: member for member in kind}


def _decode_time(data: Json, field: str) -> datetime:
    time = data if isinstance(data, datetime) else None
    if isinstance(data, str):
        try:
            time = datetime.fromisoformat(data)
        except ValueError:
            time = None
    if time is None or time.tzinfo is None:
        raise FieldError(field, data, "has to be an ISO 8601 time with its zone")
    return time


def _decode_scalar(kind: type, data: Json, field: str) -> Any:
    if kind is float:
        if isinstance(data, str) and data in _NON_FINITE:
            return float(data)
        if isinstance(data, int | float) and not isinstance(data, bool):
            return _float(data, field)
        raise FieldError(field, data, "has to be a number", hint=_number_hint(data))
    if type(data) is kind:
        return data
    raise FieldError(field, data, f"has to be {_in_words(kind)}")


def _number_hint(data: Json) -> str:
    """YAML 1.1 takes numbers such as 1e-9 as text."""
    with suppress(ValueError):
        if isinstance(data, str) and "e" in data.lower() and math.isfinite(number := float(data)):
            return f"in YAML it has a point and a sign: {_exponential(number)}"
    return ""


def _exponential(number: float) -> str:
    mantissa, exponent = f"{number:e}".split("e")
    return f"{float(mantissa)}e{exponent}"


def _float(data: int | float, field: str) -> float:
    try:
        return float(data)
    except OverflowError:
        raise FieldError(field, data, "is beyond the largest floating-point number") from None


def _join(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name

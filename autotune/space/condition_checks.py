"""What a condition in a file has to satisfy: a slip of the pen would never hold, without a word."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, get_args, get_type_hints

from autotune.errors import FieldError
from autotune.model import KnobValue
from autotune.space.conditions import COMPARISON, Condition, shown
from autotune.space.facts import FACTS, Facts
from autotune.space.knob import Knob
from autotune.space.nccl import Network

_KINDS: dict[str, Any] = {**get_type_hints(Facts), "ranks": int, "network": Network}
_VERSION = re.compile(r"\d+(\.\d+)*|none")
_OPERATORS = ("<", ">", "=", "!", "~")


def condition_mistakes(
    condition: Condition, earlier: Mapping[str, Knob], later: set[str], path: str
) -> Iterator[FieldError]:
    """Every entry that can't hold; `earlier` are the knobs that a condition may name."""
    for key, wanted in condition.items():
        field = f"{path}.{key}"
        if key in later and key not in FACTS:
            yield FieldError(field, key, "is asked after this knob, so it can't be a condition")
        elif key not in earlier and key not in FACTS:
            known = sorted({*earlier, *FACTS})
            yield FieldError(field, key, "is no knob and no fact", alternatives=known)
        else:
            yield from _wanted(wanted, earlier.get(key), key, field)


def _wanted(
    wanted: KnobValue | tuple[KnobValue, ...], knob: Knob | None, key: str, field: str
) -> Iterator[FieldError]:
    is_list = isinstance(wanted, tuple)
    for value in wanted if isinstance(wanted, tuple) else (wanted,):
        if isinstance(value, str) and value.startswith(_OPERATORS):
            yield from _comparison(value, is_list, "" if _has_order(knob, key) else key, field)
        elif knob is not None:
            yield from _one_of(value, _values(knob), field)
        else:
            yield from _fact(value, _KINDS[key], field)


def _comparison(value: str, is_list: bool, orderless: str, field: str) -> Iterator[FieldError]:
    if not COMPARISON.fullmatch(value):
        yield FieldError(field, value, "is not a comparison such as '>=2.24'")
    elif is_list:
        yield FieldError(field, value, "is a comparison, which can't stand in a list")
    elif orderless:
        rule = f"is a comparison, and {orderless} is neither a number nor a version"
        yield FieldError(field, value, rule)


def _has_order(knob: Knob | None, key: str) -> bool:
    if knob is None:
        return _KINDS[key] in (int, str)
    numbers = [c.value for c in knob.choices if not isinstance(c.value, bool | str)]
    return bool(numbers) or not knob.choices or knob.minimum is not None


def _values(knob: Knob) -> Sequence[str]:
    """Those that it can have; none if that can't be told beforehand."""
    return [] if knob.minimum is not None else [shown(choice.value) for choice in knob.choices]


def _one_of(value: KnobValue, known: Sequence[str], field: str) -> Iterator[FieldError]:
    if known and shown(value) not in known:
        yield FieldError(field, value, "is a value that it never has", alternatives=known)


def _fact(value: KnobValue, kind: Any, field: str) -> Iterator[FieldError]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        yield from _one_of(value, [member.value for member in kind], field)
    elif kind is bool or bool in get_args(kind):
        yield from _one_of(value, ["true", "false"], field)
    elif kind is int and (isinstance(value, bool) or not isinstance(value, int)):
        yield FieldError(field, value, "has to be a whole number or a comparison such as '>=4'")
    elif kind is str and not (isinstance(value, str) and _VERSION.fullmatch(value)):
        rule = "has to be a version as text or a comparison such as '>=2.24'"
        yield FieldError(field, value, rule)

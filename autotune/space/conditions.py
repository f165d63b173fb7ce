"""Conditions under which a knob or a value exists, as data: `{strategy: [ddp], ranks: ">=4"}`.

Every entry has to hold. A key names another knob or one of the Facts. A value is one allowed value,
a list of them, or a comparison (`>=`, `>`, `<=`, `<`) with a number or a version.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from autotune.model import KnobValue
from autotune.space.facts import FACTS, Facts
from autotune.space.unknown import unknown

Condition = Mapping[str, KnobValue | tuple[KnobValue, ...]]
_UNKNOWN_AS_ZERO = ("compute_capability", "cores", "blocks")
COMPARISON = re.compile(r"(>=|<=|>|<)\s*(\d+(?:\.\d+)*)")


def unmet(condition: Condition, values: Mapping[str, KnobValue], facts: Facts) -> str:
    """Why `condition` doesn't hold, as a clause for a person; empty if it does."""
    key = unmet_key(condition, values, facts)
    if not key:
        return ""
    need = f"needs {key} {wording(condition[key])}"
    if key in values:
        return f"{need}, and it is {shown(values[key])}"
    if key not in FACTS:
        return f"{need}, and {key} is left out"
    actual = getattr(facts, key)
    if actual is None or actual == "" or (actual == 0 and key in _UNKNOWN_AS_ZERO):
        return f"{need}, which {unknown(key, _example(condition[key]))}"
    return f"{need}, and it is {shown(actual)}"


def unmet_key(condition: Condition, values: Mapping[str, KnobValue], facts: Facts) -> str:
    """The first entry of `condition` that doesn't hold; empty if all do."""
    for key, wanted in condition.items():
        actual = values[key] if key in values else getattr(facts, key, None)
        if not holds(actual, wanted):
            return key
    return ""


def all_hold(condition: Condition, values: Mapping[str, KnobValue]) -> bool:
    """Whether every entry of `condition` holds of `values`."""
    return all(holds(values.get(key), wanted) for key, wanted in condition.items())


def same(left: object, right: object) -> bool:
    """Equal, and not merely because True == 1 in Python."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def shown(value: object) -> str:
    """A value as YAML and the command line have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def holds(actual: object, wanted: KnobValue | tuple[KnobValue, ...]) -> bool:
    """Whether one entry of a condition does."""
    if isinstance(wanted, tuple):
        return any(same(actual, option) for option in wanted)
    if isinstance(wanted, str) and wanted[:1] in ("<", ">"):
        return actual is not None and _compare(str(actual), wanted)
    return same(actual, wanted)


@lru_cache(maxsize=4096)
def _compare(actual: str, wanted: str) -> bool:
    match = COMPARISON.fullmatch(wanted)
    if not match:
        return actual == wanted
    numbers = [int(part) for part in re.findall(r"\d+", actual)]
    if not numbers:
        return False
    limit = [int(part) for part in match[2].split(".")]
    length = max(len(numbers), len(limit))
    left = numbers + [0] * (length - len(numbers))
    right = limit + [0] * (length - len(limit))
    return {">=": left >= right, ">": left > right, "<=": left <= right, "<": left < right}[
        match[1]
    ]


def wording(wanted: KnobValue | tuple[KnobValue, ...]) -> str:
    """What an entry of a condition asks for, for a sentence."""
    if isinstance(wanted, tuple):
        return " or ".join(shown(option) for option in wanted)
    return shown(wanted)


def _example(wanted: KnobValue | tuple[KnobValue, ...]) -> str:
    """A value that would do."""
    first = wanted[0] if isinstance(wanted, tuple) else wanted
    return shown(first).lstrip("<>= ")

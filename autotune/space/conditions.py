"""Conditions under which a knob or a value exists, as data: `{strategy: [ddp], ranks: ">=4"}`.

Every entry has to hold. A key names another knob or one of the Facts. A value is one allowed value,
a list of them, or a comparison (`>=`, `>`, `<=`, `<`) with a number or a version.
"""

import re
from collections.abc import Mapping

from autotune.errors import FieldError
from autotune.model import KnobValue
from autotune.space.facts import Facts

Condition = Mapping[str, KnobValue | tuple[KnobValue, ...]]
_COMPARISON = re.compile(r"(>=|<=|>|<)\s*(\d+(?:\.\d+)*)")


def unmet(condition: Condition, values: Mapping[str, KnobValue], facts: Facts) -> str:
    """Why `condition` doesn't hold, as a clause for a person; empty if it does."""
    for key, wanted in condition.items():
        actual = values[key] if key in values else getattr(facts, key, None)
        if not _holds(actual, wanted):
            return f"needs {key} {_wording(wanted)}, and it is {_actual(actual)}"
    return ""


def check_condition(condition: Condition, knobs: set[str], field: str) -> None:
    """Raise FieldError if `condition` asks for something that nothing can answer."""
    known = knobs | {name for name in dir(Facts) if not name.startswith("_") and name != "of"}
    known |= set(Facts.__dataclass_fields__)
    for key, wanted in condition.items():
        if key not in known:
            raise FieldError(field, key, "is no knob and no fact", alternatives=sorted(known))
        if isinstance(wanted, str) and wanted[:1] in "<>" and not _COMPARISON.fullmatch(wanted):
            raise FieldError(f"{field}.{key}", wanted, "is not a comparison such as '>=2.24'")


def _holds(actual: object, wanted: KnobValue | tuple[KnobValue, ...]) -> bool:
    if isinstance(wanted, tuple):
        return any(_same(actual, option) for option in wanted)
    if isinstance(wanted, str) and (match := _COMPARISON.fullmatch(wanted)):
        return _compare(actual, match[1], match[2])
    return _same(actual, wanted)


def _same(actual: object, wanted: KnobValue) -> bool:
    # True == 1 in Python; here they are different values.
    return actual == wanted and isinstance(actual, bool) == isinstance(wanted, bool)


def _compare(actual: object, operator: str, bound: str) -> bool:
    numbers = [int(part) for part in re.findall(r"\d+", str(actual))]
    if actual is None or not numbers:
        return False
    limit = [int(part) for part in bound.split(".")]
    length = max(len(numbers), len(limit))
    left = numbers + [0] * (length - len(numbers))
    right = limit + [0] * (length - len(limit))
    return {">=": left >= right, ">": left > right, "<=": left <= right, "<": left < right}[
        operator
    ]


def _wording(wanted: KnobValue | tuple[KnobValue, ...]) -> str:
    if isinstance(wanted, tuple):
        return " or ".join(str(option) for option in wanted)
    return str(wanted)


def _actual(actual: object) -> str:
    return "not set here" if actual is None or actual == "" else str(actual)

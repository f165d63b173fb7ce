"""What a simulated speed depends on: a trial's settings and variables under one set of names."""

import json
import re
from collections.abc import Mapping
from typing import Any, get_type_hints

from autotune.errors import FieldError
from autotune.model import DEFAULT, KnobValue, TrainingSettings, decode, encode
from autotune.space.conditions import COMPARISON, Condition

Layout = Mapping[str, KnobValue]
"""Settings by their field's name, variables by their own; `default` is a setting left alone."""

_FOLLOWS = "micro_batch"
"""It follows from the global batch and the other settings."""
_DEFAULTS = {
    name: DEFAULT if value is None else value
    for name, value in encode(TrainingSettings(micro_batch=1)).items()
}
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def layout_of(settings: TrainingSettings, environment: Mapping[str, str]) -> Layout:
    """Everything that a trial applies; a variable that isn't set is not there."""
    named = encode(settings).items()
    return {**{n: DEFAULT if v is None else v for n, v in named}, **environment}


def changes(layout: Layout) -> dict[str, KnobValue]:
    """What of `layout` is not the framework's default, in the order of names."""
    return {
        name: layout[name]
        for name in sorted(layout)
        if name != _FOLLOWS and json.dumps(layout[name]) != json.dumps(_DEFAULTS.get(name))
    }


def key(layout: Layout) -> str:
    """A text that is the same for the same layout, and for no other one."""
    return json.dumps(changes(layout))


def check_condition(when: Condition) -> None:
    """Raises FieldError for names and values that no layout has: such a rule would never hold."""
    kinds: dict[str, Any] = get_type_hints(TrainingSettings)
    for name, wanted in when.items():
        if name not in kinds and not _VARIABLE.fullmatch(name):
            raise FieldError(
                f"when.{name}",
                name,
                "is no setting of a trial and no variable",
                alternatives=kinds,
                hint="knobs that set variables go by the variable's name, such as NCCL_ALGO",
            )
        for value in wanted if isinstance(wanted, tuple) else (wanted,):
            is_comparison = isinstance(value, str) and COMPARISON.fullmatch(value)
            if name in kinds and value != DEFAULT and not is_comparison:
                decode(kinds[name], value, f"when.{name}")

"""What a simulated speed depends on: a trial's settings and variables under one set of names."""

import json
from collections.abc import Mapping

from autotune.model import DEFAULT, KnobValue, TrainingSettings, encode

Layout = Mapping[str, KnobValue]
"""Settings by their field's name, variables by their own; `default` is a setting left alone."""

_FOLLOWS = "micro_batch"
"""It follows from the global batch and the other settings."""
_DEFAULTS = {
    name: DEFAULT if value is None else value
    for name, value in encode(TrainingSettings(micro_batch=1)).items()
}
SETTINGS = tuple(_DEFAULTS)


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

"""Reads the knobs from search_spaces/*.yaml."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import yaml

from autotune.errors import FieldError, UserError
from autotune.model import TrainingSettings, decode
from autotune.space.conditions import check_condition
from autotune.space.knob import Knob, TargetKind
from autotune.space.logical import LOGICAL
from autotune.space.rules import RULES

SHIPPED = Path(__file__).resolve().parent.parent / "search_spaces"
SHIPPED_FILES = ("parallelism.yaml", "nccl.yaml")
"""In the order in which a search asks: what comes first may be a condition of what follows."""


@dataclass(frozen=True, kw_only=True)
class _File:
    knobs: tuple[Knob, ...]


def load_knobs(files: Sequence[Path] = ()) -> tuple[Knob, ...]:
    """The shipped knobs, then those of `files`. Raises UserError naming file, key and rule."""
    knobs: dict[str, Knob] = {}
    for path in [*(SHIPPED / name for name in SHIPPED_FILES), *files]:
        for knob in _read(path).knobs:
            knobs[knob.name] = knob
    _check(tuple(knobs.values()))
    return tuple(knobs.values())


def _read(path: Path) -> _File:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return decode(_File, data)
    except FieldError as error:
        raise UserError(f"{path.name}: {error}", hint=error.hint) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: can't be read as YAML: {error}") from None


def _check(knobs: tuple[Knob, ...]) -> None:
    names = {knob.name for knob in knobs}
    for knob in knobs:
        if bool(knob.choices) == bool(knob.rule):
            raise FieldError(knob.name, knob.rule, "needs either choices or a rule")
        if knob.rule and knob.rule not in RULES:
            raise FieldError(f"{knob.name}.rule", knob.rule, "is unknown", alternatives=RULES)
        _check_target(knob)
        check_condition(knob.when, names, f"{knob.name}.when")
        for choice in knob.choices:
            check_condition(choice.when, names, f"{knob.name}.choices.when")


def _check_target(knob: Knob) -> None:
    known: Sequence[str] = ()
    if knob.sets.kind is TargetKind.ARGUMENT:
        known = [f.name for f in fields(TrainingSettings)]
    elif knob.sets.kind is TargetKind.LOGICAL:
        known = list(LOGICAL)
    if known and knob.sets.name not in known:
        raise FieldError(f"{knob.name}.sets", knob.sets.name, "is unknown", alternatives=known)

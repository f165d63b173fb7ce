"""What a knob in a file has to satisfy beyond its types."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import get_type_hints

from autotune.errors import FieldError
from autotune.model import DEFAULT, DeviceKind, KnobValue, TrainingSettings, decode
from autotune.space.conditions import COMPARISON, Condition, shown
from autotune.space.facts import FACTS
from autotune.space.knob import Knob, TargetKind
from autotune.space.logical import LOGICAL
from autotune.space.nccl import Algorithm, Collective, Network, Protocol, placebo
from autotune.space.rules import RULES

TOUCHES = (
    *(c.value for c in Collective), "send", "recv", *(a.value for a in Algorithm),
    *(p.value for p in Protocol), "socket", "ib", "efa", "p2p", "shm",
)  # fmt: skip
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_OWN_PREFIXES = ("AUTOTUNE_", "TORCHELASTIC_")
_WORDS = {"device": [d.value for d in DeviceKind], "network": [n.value for n in Network]}


def mistakes_in(knob: Knob, knobs: Sequence[Knob], path: str) -> Iterator[FieldError]:
    """Every rule that `knob` breaks; `knobs` are all of them in the order of asking."""
    yield from _values(knob, path)
    yield from _target(knob, path)
    if knob.rule and knob.rule not in RULES:
        yield FieldError(f"{path}.rule", knob.rule, "is unknown", alternatives=RULES)
    for token in knob.touches:
        if token not in TOUCHES:
            yield FieldError(f"{path}.touches", token, "is unknown", alternatives=TOUCHES)
    place = knobs.index(knob)
    earlier = {other.name: other for other in knobs[:place]}
    later = {other.name for other in knobs[place:]}
    yield from _condition(knob.when, earlier, later, f"{path}.when")
    for index, choice in enumerate(knob.choices):
        yield from _condition(choice.when, earlier, later, f"{path}.choices[{index}].when")


def _values(knob: Knob, path: str) -> Iterator[FieldError]:
    computes = knob.rule in RULES and RULES[knob.rule].values is not None
    if not knob.choices and not computes and (not knob.rule or knob.rule in RULES):
        yield FieldError(f"{path}.choices", [], "has to list at least one value")
    seen: list[str] = []
    for index, choice in enumerate(knob.choices):
        if repr(choice.value) in seen:
            yield FieldError(f"{path}.choices[{index}].value", choice.value, "is there twice")
        seen.append(repr(choice.value))
    if knob.choices and knob.default is not None and knob.choice(knob.default) is None:
        values = [shown(choice.value) for choice in knob.choices]
        rule = "has to be one of the choices"
        yield FieldError(f"{path}.default", knob.default, rule, alternatives=values)
    yield from _range(knob, path)


def _range(knob: Knob, path: str) -> Iterator[FieldError]:
    low, high = knob.minimum, knob.maximum
    if (low is None) != (high is None):
        missing = "minimum" if low is None else "maximum"
        yield FieldError(f"{path}.{missing}", None, "is needed: a range has both ends")
    if low is None or high is None:
        return
    if low > high:
        yield FieldError(f"{path}.minimum", low, f"has to be at most the maximum, {high}")
        return
    for index, choice in enumerate(knob.choices):
        value = choice.value
        if isinstance(value, int) and not isinstance(value, bool) and not low <= value <= high:
            rule = f"is outside {low} to {high}"
            yield FieldError(f"{path}.choices[{index}].value", value, rule)


def _target(knob: Knob, path: str) -> Iterator[FieldError]:
    name = knob.sets.name
    field = f"{path}.sets.name"
    if knob.sets.kind is TargetKind.ENVIRONMENT:
        if not _VARIABLE.fullmatch(name):
            yield FieldError(field, name, "has to be a variable's name: letters, digits and _")
        if name in _OWN or name.startswith(_OWN_PREFIXES):
            yield FieldError(field, name, "is set by autotune for each rank")
        if knob.default != DEFAULT:
            rule = f"has to be {DEFAULT!r} for a variable: the baseline leaves it alone"
            yield FieldError(f"{path}.default", knob.default, rule)
        explanation = placebo(name)
        if explanation:
            yield FieldError(
                field, name, f"does nothing: {explanation.why}", hint=explanation.instead
            )
        return
    known = LOGICAL if knob.sets.kind is TargetKind.LOGICAL else _ARGUMENTS
    if name not in known:
        yield FieldError(field, name, "is unknown", alternatives=known)
    elif knob.sets.kind is TargetKind.ARGUMENT:
        yield from _argument_values(knob, path)


def _argument_values(knob: Knob, path: str) -> Iterator[FieldError]:
    """Each value has to be of the kind that the trainer's setting takes."""
    kind = get_type_hints(TrainingSettings)[knob.sets.name]
    for index, choice in enumerate(knob.choices):
        if choice.value == DEFAULT:
            continue
        try:
            decode(kind, choice.value, f"{path}.choices[{index}].value")
        except FieldError as error:
            yield error


_ARGUMENTS = tuple(f.name for f in fields(TrainingSettings) if f.name != "micro_batch")


def _condition(
    condition: Condition, earlier: dict[str, Knob], later: set[str], path: str
) -> Iterator[FieldError]:
    for key, wanted in condition.items():
        field = f"{path}.{key}"
        if key in later:
            yield FieldError(field, key, "is asked after this knob, so it can't be a condition")
        elif key not in earlier and key not in FACTS:
            yield FieldError(
                field, key, "is no knob and no fact", alternatives=sorted({*earlier, *FACTS})
            )
        elif isinstance(wanted, str) and wanted[:1] in "<>" and not COMPARISON.fullmatch(wanted):
            yield FieldError(field, wanted, "is not a comparison such as '>=2.24'")
        else:
            yield from _wanted(wanted, earlier.get(key), _WORDS.get(key), field)


def _wanted(
    wanted: KnobValue | tuple[KnobValue, ...],
    knob: Knob | None,
    words: Sequence[str] | None,
    field: str,
) -> Iterator[FieldError]:
    """A value that its knob or fact never has is a slip of the pen."""
    known: list[str] = list(words or ())
    if knob is not None and knob.choices and knob.minimum is None:
        known = [shown(choice.value) for choice in knob.choices]
    for value in wanted if isinstance(wanted, tuple) else (wanted,):
        is_comparison = isinstance(value, str) and COMPARISON.fullmatch(value)
        if known and not is_comparison and shown(value) not in known:
            yield FieldError(field, value, "is a value that it never has", alternatives=known)

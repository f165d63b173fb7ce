"""What a knob in a file has to satisfy beyond its types."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import get_type_hints

from autotune.errors import ABSENT, FieldError, quoted
from autotune.model import DEFAULT, KnobValue, TrainingSettings, decode
from autotune.model.secrets import redacted
from autotune.model.variables import HINT, name_fault, value_fault
from autotune.space.condition_checks import condition_mistakes
from autotune.space.conditions import same, shown
from autotune.space.facts import FACTS
from autotune.space.knob import Knob, TargetKind
from autotune.space.logical import LOGICAL
from autotune.space.nccl import Algorithm, Collective, Protocol, placebo, problem, reads
from autotune.space.nccl.names import SINCE
from autotune.space.rules import RULES

TOUCHES = (
    *(c.value for c in Collective), "send", "recv", *(a.value for a in Algorithm),
    *(p.value for p in Protocol), "socket", "ib", "efa", "p2p", "shm",
)  # fmt: skip


def mistakes_in(knob: Knob, knobs: Sequence[Knob], path: str) -> Iterator[FieldError]:
    """Every rule that `knob` breaks; `knobs` are all of them in the order of asking."""
    yield from _name(knob, path)
    yield from _values(knob, path)
    yield from list(_rivals(knob, knobs, path)) or _target(knob, path)
    if knob.rule and knob.rule not in RULES:
        yield FieldError(f"{path}.rule", knob.rule, "is unknown", alternatives=RULES)
    for token in knob.touches:
        if token not in TOUCHES:
            yield FieldError(f"{path}.touches", token, "is unknown", alternatives=TOUCHES)
    place = knobs.index(knob)
    earlier = {other.name: other for other in knobs[:place]}
    later = {other.name for other in knobs[place:]}
    yield from condition_mistakes(knob.when, earlier, later, f"{path}.when")
    for index, choice in enumerate(knob.choices):
        where = f"{path}.choices[{index}].when"
        yield from condition_mistakes(choice.when, earlier, later, where)


def _name(knob: Knob, path: str) -> Iterator[FieldError]:
    if knob.name in FACTS:
        yield FieldError(f"{path}.name", knob.name, "is a fact, which conditions ask for")
    if not knob.name.strip() or set(knob.name) & set("=, \n"):
        rule = "has to be a word: --set and --only take it"
        yield FieldError(f"{path}.name", knob.name, rule)


def _rivals(knob: Knob, knobs: Sequence[Knob], path: str) -> Iterator[FieldError]:
    """Two knobs that set the same thing: which value holds would be a matter of their order."""
    for other in knobs:
        if other.name == knob.name:
            continue
        is_same = (other.sets.kind, other.sets.name) == (knob.sets.kind, knob.sets.name)
        shared = sorted({*knob.all_variables} & {*other.all_variables})
        if is_same or shared:
            what = ", ".join(shared) or knob.sets.name
            hint = f"change that one instead: name: {other.name}"
            yield FieldError(
                f"{path}.sets.name", what, f"is set by {other.name} already", hint=hint
            )


def _values(knob: Knob, path: str) -> Iterator[FieldError]:
    computes = knob.rule in RULES and RULES[knob.rule].values is not None
    if not knob.choices and not computes and (not knob.rule or knob.rule in RULES):
        yield FieldError(f"{path}.choices", [], "has to list at least one value")
    yield from _twins(knob, path)
    if knob.choices and knob.default is not None and knob.choice(knob.default) is None:
        values = [shown(choice.value) for choice in knob.choices]
        rule = "has to be one of the choices"
        yield FieldError(f"{path}.default", knob.default, rule, alternatives=values)
    yield from _range(knob, path)


def _twins(knob: Knob, path: str) -> Iterator[FieldError]:
    """Values that become one setting: a search would try it twice, as two candidates."""
    for index, choice in enumerate(knob.choices):
        for place, earlier in enumerate(knob.choices[:index]):
            if _is_one_setting(knob, earlier.value, choice.value):
                alike = repr(choice.value) == repr(earlier.value)
                same_as = f"is the same setting as {quoted(earlier.value)}, choices[{place}]"
                rule = "is there twice" if alike else same_as
                yield FieldError(f"{path}.choices[{index}].value", choice.value, rule)
                break


def _is_one_setting(knob: Knob, one: KnobValue, other: KnobValue) -> bool:
    if knob.sets.kind is TargetKind.ENVIRONMENT and shown(one) == shown(other):
        return True
    return same(one, other)


def _range(knob: Knob, path: str) -> Iterator[FieldError]:
    low, high = knob.minimum, knob.maximum
    if (low is None) != (high is None):
        missing = "minimum" if low is None else "maximum"
        yield FieldError(f"{path}.{missing}", ABSENT, "is needed: a range has both ends")
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
    for index, variable in enumerate(knob.variables):
        # Their values here are noted with the study, and set in its trials.
        if rule := name_fault(variable):
            yield FieldError(f"{path}.variables[{index}]", variable, rule, hint=HINT)
    if knob.sets.kind is TargetKind.ENVIRONMENT:
        if knob.default != DEFAULT:
            rule = f"has to be {DEFAULT!r} for a variable: the baseline leaves it alone"
            default = ABSENT if knob.default is None else knob.default
            yield FieldError(f"{path}.default", default, rule)
        if rule := name_fault(name):
            yield FieldError(field, name, rule, hint=HINT)
        else:
            yield from _variable_values(knob, path)
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
    else:
        yield from _logical_values(knob, path)


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


def _logical_values(knob: Knob, path: str) -> Iterator[FieldError]:
    for index, choice in enumerate(knob.choices):
        field, value = f"{path}.choices[{index}].value", choice.value
        words = _LOGICAL_WORDS.get(knob.sets.name)
        if value == DEFAULT:
            continue
        if words is None and (isinstance(value, bool) or not isinstance(value, int)):
            yield FieldError(field, value, f"has to be a whole number or {DEFAULT}")
        elif words is not None and value not in words:
            yield FieldError(field, value, "is unknown", alternatives=[DEFAULT, *words])


def _variable_values(knob: Knob, path: str) -> Iterator[FieldError]:
    """What no configuration may set, and what not even the newest NCCL takes."""
    is_nccls = reads(_NEWEST, knob.sets.name)
    for index, choice in enumerate(knob.choices):
        if choice.value == DEFAULT:
            continue
        field, text = f"{path}.choices[{index}].value", shown(choice.value)
        if rule := value_fault(knob.sets.name, text):
            yield FieldError(field, redacted(text), rule, hint=HINT)
        elif is_nccls and (why := problem(_NEWEST, knob.sets.name, text)):
            yield FieldError(field, choice.value, f"can't be set: {why}")


_ARGUMENTS = tuple(f.name for f in fields(TrainingSettings) if f.name != "micro_batch")
_LOGICAL_WORDS: dict[str, list[str]] = {
    "nccl_algorithm": [a.value for a in Algorithm],
    "nccl_protocol": [p.value for p in Protocol],
}
_NEWEST = max(SINCE.values())

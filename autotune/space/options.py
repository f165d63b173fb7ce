"""Which values of a knob exist, given what was chosen before it, and why not the others."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autotune.model import DEFAULT, DeviceKind, KnobValue
from autotune.space import nccl_rules
from autotune.space.conditions import same, unmet, unmet_key
from autotune.space.facts import FACTS, Facts
from autotune.space.knob import Knob, TargetKind
from autotune.space.nccl import problem, unread
from autotune.space.rules import RULES

Values = Mapping[str, KnobValue]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a person has laid down beside the catalogue."""

    pins: Mapping[str, KnobValue] = field(default_factory=dict)
    """Knob to its only value."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Knob to the variable of the environment that decides in its place."""
    allow_lossy: bool = False


def options(knob: Knob, values: Values, facts: Facts, terms: Terms) -> tuple[KnobValue, ...]:
    """The values of `knob` that exist after `values`; none if the knob itself doesn't exist."""
    if absence(knob, values, facts):
        return ()
    if knob.name in terms.held:
        return (DEFAULT,)
    if is_scripts_own(knob, facts):
        return _decided(knob, values, facts)
    if knob.name in terms.pins:
        pin = terms.pins[knob.name]
        return () if objection(knob, pin, values, facts, terms) else (pin,)
    return tuple(
        value
        for value in listed(knob, values, facts)
        if not objection(knob, value, values, facts, terms)
    )


def is_scripts_own(knob: Knob, facts: Facts) -> bool:
    """Whether the user's script decides on `knob`, and no candidate can."""
    is_setting = knob.sets.kind is TargetKind.ARGUMENT
    return is_setting and facts.told is not None and knob.sets.name not in facts.told


def _decided(knob: Knob, values: Values, facts: Facts) -> tuple[KnobValue, ...]:
    """What the user's script was seen to do, else the framework's default."""
    if knob.sets.name in facts.own:
        return (facts.own[knob.sets.name],)
    possible = listed(knob, values, facts)
    return tuple([one for one in possible if same(one, knob.default)] or possible[:1])


def listed(knob: Knob, values: Values, facts: Facts) -> list[KnobValue]:
    """The values to judge, in their natural order."""
    if knob.choices:
        return [choice.value for choice in knob.choices]
    compute = RULES[knob.rule].values
    return compute(values, facts) if compute else []


def absence(knob: Knob, values: Values, facts: Facts) -> str:
    """Why `knob` doesn't exist after `values`, as a clause; empty if it does."""
    is_cuda = facts.device is not DeviceKind.CPU
    # Where its network isn't there, nothing else about a knob matters.
    reason = (is_cuda and nccl_rules.off_network(knob.touches, facts)) or unmet(
        knob.when, values, facts
    )
    if reason:
        return reason
    variable = knob.sets.name
    # Without NCCL nothing is known beforehand: a trial reads back what became of the variable.
    is_nccl = facts.nccl != "" and variable.startswith("NCCL_")
    if is_nccl and knob.sets.kind is TargetKind.ENVIRONMENT:
        explanation = unread(nccl_rules.version(facts), variable)
        if explanation:
            return f"sets {variable}: {explanation.why}"
    if not knob.touches or not is_cuda:
        return ""
    # One place that it reaches is enough.
    reasons = [nccl_rules.reached(token, values, facts) for token in knob.touches]
    return reasons[0] if all(reasons) else ""


def needed(knob: Knob, values: Values, facts: Facts) -> str:
    """The other knob whose value keeps `knob` from existing after `values`; empty if none does."""
    key = unmet_key(knob.when, values, facts)
    is_knob = key != "" and (key in values or key not in FACTS)
    return (
        key if is_knob and absence(knob, values, facts) == unmet(knob.when, values, facts) else ""
    )


def objection(knob: Knob, value: KnobValue, values: Values, facts: Facts, terms: Terms) -> str:
    """Why `value` doesn't exist after `values`, as a clause; empty if it does."""
    choice = knob.choice(value)
    if choice is not None:
        reason = unmet(choice.when, values, facts)
        if reason:
            return reason
    elif knob.choices and not knob.in_range(value):
        return "is not among the values of this space"
    reason = _default_in_words(knob, value, facts) or _judged(knob, value, values, facts)
    if not reason and choice is not None and choice.lossy and not terms.allow_lossy:
        return "changes numerics: allow that with --allow-lossy"
    return reason


def _default_in_words(knob: Knob, value: KnobValue, facts: Facts) -> str:
    """Whether `value` is what happens anyway: it would be measured twice."""
    if value == DEFAULT or not same(value, meaning(knob, facts)):
        return ""
    who = "the EFA plugin sets" if knob.sets.name in facts.presets else "the default means"
    return f"is what {who} here"


def meaning(knob: Knob, facts: Facts) -> KnobValue | None:
    """What `default` comes to here; None if that isn't known."""
    preset = facts.presets.get(knob.sets.name)
    compute = RULES[knob.rule].meaning if knob.rule else None
    if compute is not None:
        return compute(facts)
    if preset is None:
        return knob.default_means
    return int(preset) if preset.isdecimal() else preset


def _judged(knob: Knob, value: KnobValue, values: Values, facts: Facts) -> str:
    variable = knob.sets.name
    is_variable = knob.sets.kind is TargetKind.ENVIRONMENT and variable.startswith("NCCL_")
    if is_variable and facts.nccl and value != DEFAULT:
        reason = problem(nccl_rules.version(facts), variable, str(value))
        if reason:
            return reason
    return RULES[knob.rule].judge(value, values, facts) if knob.rule else ""


def _is_judged_by_version(knob: Knob, facts: Facts) -> bool:
    """Where NCCL's version isn't known nothing is held against a variable of NCCL's."""
    is_variable = knob.sets.kind is TargetKind.ENVIRONMENT
    return is_variable and knob.sets.name.startswith("NCCL_") and bool(facts.nccl)


def situations(
    knob: Knob, knobs: Sequence[Knob], facts: Facts, terms: Terms
) -> Iterator[dict[str, KnobValue]]:
    """Every combination of values of those knobs before `knob` that its existence depends on."""
    yield from _combinations(_dependencies(knob, knobs), {}, facts, terms)


def _combinations(
    knobs: Sequence[Knob], values: dict[str, KnobValue], facts: Facts, terms: Terms
) -> Iterator[dict[str, KnobValue]]:
    if not knobs:
        yield values
        return
    first, rest = knobs[0], knobs[1:]
    choices = options(first, values, facts, terms)
    for value in choices:
        yield from _combinations(rest, {**values, first.name: value}, facts, terms)
    if not choices:
        yield from _combinations(rest, values, facts, terms)


def _dependencies(knob: Knob, knobs: Sequence[Knob]) -> list[Knob]:
    """The knobs that conditions and rules of `knob` refer to, directly or not, in order."""
    wanted: set[str] = set()
    pending = [knob]
    # Only what is asked before a knob can decide on it.
    earlier = knobs[: knobs.index(knob)]
    while pending:
        names = _named_in(pending.pop())
        new = [other for other in earlier if other.name in names - wanted]
        wanted |= {other.name for other in new}
        pending += new
    return [other for other in earlier if other.name in wanted]


def _named_in(knob: Knob) -> set[str]:
    names = set(knob.when)
    for choice in knob.choices:
        names |= set(choice.when)
    if knob.rule:
        names |= set(RULES[knob.rule].depends)
    for token in knob.touches:
        names |= set(nccl_rules.asked_for(token))
    return names

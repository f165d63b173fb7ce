"""Which values of a knob exist, given what was chosen before it."""

from collections.abc import Iterator, Mapping, Sequence

from autotune.model import KnobValue
from autotune.space.conditions import unmet
from autotune.space.facts import Facts
from autotune.space.knob import Knob
from autotune.space.rules import RULES

Pins = Mapping[str, KnobValue]


def same(left: object, right: object) -> bool:
    """Equal, and not merely because True == 1 in Python."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def options(
    knob: Knob, values: Mapping[str, KnobValue], facts: Facts, pins: Pins
) -> tuple[KnobValue, ...]:
    """The values of `knob` that exist after `values`; none if the knob itself doesn't exist."""
    if unmet(knob.when, values, facts):
        return ()
    if knob.name in pins:
        return (pins[knob.name],)
    if knob.rule:
        return tuple(RULES[knob.rule].values(values, facts))
    return tuple(c.value for c in knob.choices if not unmet(c.when, values, facts))


def situations(
    knob: Knob, knobs: Sequence[Knob], facts: Facts, pins: Pins
) -> Iterator[dict[str, KnobValue]]:
    """Every combination of values of those knobs before `knob` that its existence depends on."""
    yield from _combinations(_dependencies(knob, knobs), {}, facts, pins)


def _combinations(
    knobs: Sequence[Knob], values: dict[str, KnobValue], facts: Facts, pins: Pins
) -> Iterator[dict[str, KnobValue]]:
    if not knobs:
        yield values
        return
    first, rest = knobs[0], knobs[1:]
    choices = options(first, values, facts, pins)
    for value in choices:
        yield from _combinations(rest, {**values, first.name: value}, facts, pins)
    if not choices:
        yield from _combinations(rest, values, facts, pins)


def _dependencies(knob: Knob, knobs: Sequence[Knob]) -> list[Knob]:
    """The knobs that conditions and rules of `knob` refer to, directly or not, in order."""
    wanted: set[str] = set()
    pending = [knob]
    while pending:
        current = pending.pop()
        names = set(current.when)
        for choice in current.choices:
            names |= set(choice.when)
        if current.rule:
            names |= set(RULES[current.rule].depends)
        new = [other for other in knobs if other.name in names - wanted - {knob.name}]
        wanted |= {other.name for other in new}
        pending += new
    return [other for other in knobs if other.name in wanted]

"""What is possible for a knob in a space, for a person to read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.model import DEFAULT, KnobValue
from autotune.space.conditions import holds, same, shown, wording
from autotune.space.knob import Knob
from autotune.space.options import (
    Terms,
    absence,
    listed,
    meaning,
    needed,
    objection,
    options,
    situations,
)

if TYPE_CHECKING:
    from autotune.space.space import Space


@dataclass(frozen=True, kw_only=True)
class KnobView:
    """One knob of a space."""

    knob: Knob
    values: tuple[KnobValue, ...]
    """Those that exist in some candidate."""
    left_out: Mapping[str, str]
    """Those that don't, as text, each with the reason."""
    reason: str
    """Why the knob doesn't exist here at all; empty if it does."""
    searched: bool
    held_by: str
    """The variable of the environment that decides in its place, with its value; else empty."""
    default_means: KnobValue | None
    """What the value `default` comes to here, if known."""


def view(space: "Space", knob: Knob, *, free: bool = False) -> KnobView:
    """What is possible for `knob` in `space`, and why the rest is not.

    With `free` a pin of the knob itself is left aside.
    """
    terms = space.terms
    if free:
        pins = {name: value for name, value in terms.pins.items() if name != knob.name}
        terms = Terms(pins=pins, held=terms.held, allow_lossy=terms.allow_lossy)
    values: list[KnobValue] = []
    left_out: dict[str, str] = {}
    absences: list[tuple[bool, str]] = []
    is_open = False
    for before in situations(knob, space.knobs, space.facts, terms):
        absent = absence(knob, before, space.facts)
        if absent:
            other = needed(knob, before, space.facts)
            absences.append((other != "", _because(space, knob, other) or absent))
            continue
        possible = options(knob, before, space.facts, terms)
        is_open = is_open or len(possible) > 1
        values += [v for v in possible if not any(same(v, known) for known in values)]
        for value in listed(knob, before, space.facts):
            why = objection(knob, value, before, space.facts, terms)
            if why:
                left_out.setdefault(shown(value), why)
    # What another knob has to do with it says less than a reason of the knob's own.
    _, reason = min(absences, key=lambda found: found[0], default=(False, ""))
    return KnobView(
        knob=knob,
        values=tuple(values),
        left_out={text: why for text, why in left_out.items() if text not in map(shown, values)},
        reason="" if values else reason or next(iter(left_out.values()), "has no value that fits"),
        searched=is_open and space.is_searched(knob),
        held_by=_held_by(space, knob),
        default_means=meaning(knob, space.facts) if _has_default(knob) else None,
    )


def _because(space: "Space", knob: Knob, other: str) -> str:
    """Why the knob `other` never has the value that `knob` needs; empty if it can have it."""
    if not other:
        return ""
    wanted = knob.when[other]
    seen = view(space, space.knob(other))
    if any(holds(value, wanted) for value in seen.values):
        return ""
    if seen.reason:
        return f"needs {other}, which is left out: {seen.reason}"
    causes = [why for text, why in seen.left_out.items() if text in wording(wanted).split(" or ")]
    return f"needs {other} {wording(wanted)}, which is left out: {causes[0]}" if causes else ""


def _held_by(space: "Space", knob: Knob) -> str:
    name = space.terms.held.get(knob.name)
    return f"{name}={space.facts.environment[name]}" if name else ""


def _has_default(knob: Knob) -> bool:
    return knob.default == DEFAULT

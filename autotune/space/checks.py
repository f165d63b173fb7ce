"""What a person asked of a space: refused where it leaves no candidate."""

from typing import TYPE_CHECKING

from autotune.errors import FieldError
from autotune.model import KnobValue
from autotune.space.conditions import same, shown
from autotune.space.environment import contradiction
from autotune.space.knob import Knob, TargetKind
from autotune.space.logical import LOGICAL
from autotune.space.options import Terms, absence, is_scripts_own, objection, situations
from autotune.space.view import view

if TYPE_CHECKING:
    from autotune.space.space import Space


def check(space: "Space") -> None:
    """Raise FieldError for a batch, a name or a pinned value that can't be."""
    _check_batch(space)
    names = [knob.name for knob in space.knobs]
    for flag, given in (("--set", space.pinned), ("--only", space.only)):
        for name in given:
            if name not in names:
                raise FieldError(flag, name, "is no knob", alternatives=names)
    for name, value in space.pinned.items():
        _check_told(space, space.knob(name), f"--set {name}", value)
        _check_pin(space, space.knob(name), value)
    for name in space.only:
        _check_told(space, space.knob(name), "--only", name)
        reason = view(space, space.knob(name)).reason
        if reason:
            raise FieldError("--only", name, f"has no effect here: {reason}")


def _check_told(space: "Space", knob: Knob, flag: str, value: KnobValue) -> None:
    """A script that isn't told of a knob goes on as before, whatever its value."""
    if is_scripts_own(knob, space.facts):
        raise FieldError(
            flag, value, f"has no effect: none of the script's arguments has {{{knob.sets.name}}}",
            hint=f"give it an argument such as --option {{{knob.sets.name}}}",
        )  # fmt: skip


def _check_batch(space: "Space") -> None:
    batch, ranks = space.facts.global_batch, space.facts.ranks
    if batch < 1 or batch % ranks:
        near = sorted({max(ranks, batch // ranks * ranks), (batch // ranks + 1) * ranks})
        raise FieldError(
            "--global-batch",
            batch,
            f"has to be a multiple of the {ranks} data-parallel ranks, so that each gets whole "
            "samples",
            alternatives=near,
        )


def _check_pin(space: "Space", knob: Knob, value: KnobValue) -> None:
    """A pinned value has to be possible in some candidate."""
    reason = ""
    for before in situations(knob, space.knobs, space.facts, _others(space, knob)):
        absent = absence(knob, before, space.facts)
        why = absent or objection(knob, value, before, space.facts, _others(space, knob))
        if not why:
            _check_environment(space, knob, value, before)
            return
        if not absent:
            reason = why
    seen = view(space, knob, free=True)
    flag = f"--set {knob.name}"
    if seen.reason and not reason:
        raise FieldError(flag, value, f"has no effect here: {seen.reason}")
    rule = f"is left out here: {reason}" if reason else "is not possible here"
    raise FieldError(flag, value, rule, alternatives=map(shown, seen.values))


def _others(space: "Space", knob: Knob) -> Terms:
    pins = {name: value for name, value in space.pinned.items() if name != knob.name}
    return Terms(pins=pins, held=space.terms.held, allow_lossy=space.terms.allow_lossy)


def _check_environment(
    space: "Space", knob: Knob, value: KnobValue, before: dict[str, KnobValue]
) -> None:
    if knob.sets.kind is not TargetKind.LOGICAL or same(value, knob.default):
        return
    written = LOGICAL[knob.sets.name](value, before, space.facts)
    other = contradiction(knob, written, space.facts)
    if other:
        raise FieldError(
            f"--set {knob.name}",
            value,
            f"contradicts {other} in the environment",
            hint=f"unset {other.partition('=')[0]}",
        )

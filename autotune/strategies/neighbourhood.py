"""Candidates that differ from another in one knob."""

from collections.abc import Iterator

from autotune.model import Candidate, KnobValue
from autotune.space.conditions import same
from autotune.space.knob import Effect
from autotune.space.space import Question, Space, default_of


def single_changes(space: Space, effect: Effect) -> tuple[Candidate, ...]:
    """The baseline with one knob of this effect changed: each of its values once."""
    base = space.baseline()
    return tuple(
        _changed(space, base, question.knob.name, other)
        for question, value in space.questions(base)
        if question.knob.effect is effect
        for other in question.values
        if not same(other, value)
    )


def neighbours(space: Space, base: Candidate) -> Iterator[Candidate]:
    """The candidates with one knob changed, and what that makes impossible at its default."""
    for question, value in space.questions(base):
        for other in question.values:
            if not same(other, value):
                yield _changed(space, base, question.knob.name, other)


def _changed(space: Space, base: Candidate, name: str, value: KnobValue) -> Candidate:
    def choose(question: Question) -> KnobValue:
        wanted = value if question.knob.name == name else base.get(question.knob.name)
        known = [v for v in question.values if wanted is not None and same(v, wanted)]
        return known[0] if known else default_of(question.knob, question.values)

    return space.build(choose)

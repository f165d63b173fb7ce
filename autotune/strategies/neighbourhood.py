"""Candidates that differ from another in one knob."""

from collections.abc import Iterator

from autotune.model import Candidate
from autotune.space.conditions import same
from autotune.space.knob import Effect
from autotune.space.space import Space


def single_changes(space: Space, effect: Effect) -> tuple[Candidate, ...]:
    """The baseline with one knob of this effect changed: each of its values once."""
    base = space.baseline()
    return tuple(
        space.varied(base, question.knob.name, other)
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
                yield space.varied(base, question.knob.name, other)

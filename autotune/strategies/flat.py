"""A conditional space as one of fixed axes, for methods that know no other."""

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.model import Candidate, KnobValue
from autotune.space.conditions import same
from autotune.space.knob import Knob
from autotune.space.space import Question, Space, default_of
from autotune.space.view import view


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A knob that is searched, with every value that it has in some candidate."""

    knob: Knob
    values: tuple[KnobValue, ...]
    """In their natural order."""

    def index(self, value: KnobValue) -> int:
        """Where `value`, which is one of this axis, lies."""
        return next(i for i, known in enumerate(self.values) if same(known, value))


class FlatSpace:
    """A box of indices, a point of which is one candidate; several points may be the same.

    A knob that doesn't exist in a candidate has its default there. A point's value that doesn't
    exist where it leads becomes the nearest one that does.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        views = (view(space, knob) for knob in space.knobs)
        self.axes = tuple(
            Axis(knob=v.knob, values=_sorted(v.knob, v.values)) for v in views if v.searched
        )
        self._axis = {axis.knob.name: axis for axis in self.axes}

    def point(self, candidate: Candidate) -> dict[str, int]:
        """Knob to index, for every axis."""
        return {
            name: axis.index(candidate.get(name, default_of(axis.knob, axis.values)))
            for name, axis in self._axis.items()
        }

    def candidate(self, point: Mapping[str, int]) -> Candidate:
        """The candidate that `point` comes to."""

        def choose(question: Question) -> KnobValue:
            axis = self._axis[question.knob.name]
            return _nearest(axis, point[question.knob.name], question)

        return self._space.build(choose)


def _sorted(knob: Knob, values: tuple[KnobValue, ...]) -> tuple[KnobValue, ...]:
    """`values`, which come in the order in which they were met, as the catalogue lists them."""
    listed = [choice.value for choice in knob.choices]
    if listed:
        return tuple(v for v in listed if any(same(v, met) for met in values))
    return tuple(sorted(values, key=lambda v: (isinstance(v, str), isinstance(v, bool), v)))


def _nearest(axis: Axis, index: int, question: Question) -> KnobValue:
    wanted = axis.values[index]
    if any(same(wanted, value) for value in question.values):
        return wanted
    if not axis.knob.ordered:
        return default_of(axis.knob, question.values)
    return min(question.values, key=lambda value: abs(axis.index(value) - index))

"""What tells candidates apart, as numbers: the values that are not the default's, knob by knob."""

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune.model import Candidate
from autotune.space.conditions import same
from autotune.space.knob import Effect
from autotune.space.space import Question, Space, default_of

Index = NDArray[np.intp]
Rows = dict[Effect, NDArray[np.float64]]
"""For the knobs of each effect: a matrix (candidates, features)."""
_GROWTH = 64


class FeatureTable:
    """The features of candidates of one space, each worked out once.

    The baseline has none. An unordered knob has one for each value; an ordered one has one for each
    step from the default to the value, so that values share the way that leads to both.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._row: dict[Candidate, int] = {}
        self._column: dict[tuple[Effect, Hashable], int] = {}
        self._width = dict.fromkeys(Effect, 0)
        self._values: Rows = {effect: np.zeros((_GROWTH, _GROWTH)) for effect in Effect}

    def index(self, candidates: Sequence[Candidate]) -> Index:
        """Numbers of these candidates, for `rows`: equal ones have equal numbers."""
        for candidate in candidates:
            if candidate not in self._row:
                self._add(candidate)
        return np.fromiter((self._row[one] for one in candidates), dtype=np.intp)

    def rows(self, index: Index) -> Rows:
        """Their features."""
        return {
            effect: self._values[effect][index, : self._width[effect]] for effect in self._values
        }

    def _add(self, candidate: Candidate) -> None:
        row = self._row[candidate] = len(self._row)
        for effect, key, value in features(self._space, candidate):
            if (effect, key) not in self._column:
                self._column[effect, key] = self._width[effect]
                self._width[effect] += 1
            column = self._column[effect, key]
            self._values[effect] = _holding(self._values[effect], row, column)
            self._values[effect][row, column] = value
        # One without any feature of an effect needs its zeros there.
        self._values = {e: _holding(values, row, 0) for e, values in self._values.items()}


def features(space: Space, candidate: Candidate) -> Iterator[tuple[Effect, Hashable, float]]:
    """What is not 0 of a candidate: the knob's effect, the feature, and its value."""
    for question, value in space.questions(candidate):
        for step in _steps(question, value):
            yield question.knob.effect, (question.knob.name, *step), 1 / _spread(question)


def _steps(question: Question, value: object) -> list[tuple[str, ...]]:
    """From the default to `value`: one step for each neighbour passed, else one in all."""
    default = default_of(question.knob, question.values)
    if same(value, default):
        return []
    if not question.knob.ordered:
        return [(str(value),)]
    values = question.values
    start, end = (next(i for i, v in enumerate(values) if same(v, x)) for x in (default, value))
    low, high = sorted((start, end))
    way = "up" if end > start else "down"
    return [(way, str(values[i]), str(values[i + 1])) for i in range(low, high)]


def _spread(question: Question) -> float:
    """What divides a knob's deviation over its steps, so that half of them make it up."""
    return math.sqrt(max(1.0, (len(question.values) - 1) / 2)) if question.knob.ordered else 1.0


def _holding(values: NDArray[Any], row: int, column: int) -> NDArray[Any]:
    """`values`, grown by as much again if it has no such place."""
    rows, columns = values.shape
    more = (rows if row >= rows else 0, columns if column >= columns else 0)
    return np.pad(values, [(0, after) for after in more]) if any(more) else values

"""What tells candidates apart, as numbers: the values that are not the default's, knob by knob."""

import math
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from autotune.model import Candidate
from autotune.space.conditions import same
from autotune.space.knob import Effect
from autotune.space.space import Question, Space, default_of

Index = NDArray[np.intp]
Matrix = NDArray[np.float64]
Rows = dict[Effect, Matrix]
"""For the knobs of each effect: a matrix (candidates, features)."""
_Entries = tuple[Index, NDArray[np.float64]]
"""What isn't 0 in a row: columns and values."""


class FeatureTable:
    """The features of candidates of one space, each worked out once.

    The baseline has none. An unordered knob has one for each value; an ordered one has one for each
    step from the default to the value, so that values share the way that leads to both.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._number: dict[Candidate, int] = {}
        self._columns: dict[Effect, dict[Hashable, int]] = {effect: {} for effect in Effect}
        self._entries: dict[Effect, list[_Entries]] = {effect: [] for effect in Effect}

    def index(self, candidates: Sequence[Candidate]) -> Index:
        """Numbers of these candidates, for `rows`: equal ones have equal numbers."""
        for candidate in candidates:
            if candidate not in self._number:
                self._add(candidate)
        return np.fromiter((self._number[one] for one in candidates), dtype=np.intp)

    def rows(self, index: Index) -> Rows:
        """Their features."""
        numbers = index.tolist()
        return {
            effect: _dense([entries[number] for number in numbers], len(self._columns[effect]))
            for effect, entries in self._entries.items()
        }

    def _add(self, candidate: Candidate) -> None:
        self._number[candidate] = len(self._number)
        found: dict[Effect, dict[int, float]] = {effect: {} for effect in Effect}
        for effect, key, value in features(self._space, candidate):
            known = self._columns[effect]
            found[effect][known.setdefault(key, len(known))] = value
        for effect, row in found.items():
            columns = np.fromiter(row.keys(), dtype=np.intp)
            self._entries[effect].append((columns, np.fromiter(row.values(), dtype=np.float64)))


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


def _dense(rows: Sequence[_Entries], width: int) -> Matrix:
    """These rows as a matrix of `width` columns."""
    matrix = np.zeros((len(rows), width))
    if rows:
        places = np.repeat(np.arange(len(rows)), [len(columns) for columns, _ in rows])
        columns = np.concatenate([columns for columns, _ in rows])
        matrix[places, columns] = np.concatenate([values for _, values in rows])
    return matrix

"""The candidates of a space that haven't been told yet, without making all of them."""

import random
from collections.abc import Collection
from itertools import islice

from autotune.model import Candidate
from autotune.space.space import Space

_ATTEMPTS = 20
"""Walks through the space that may end at a told candidate before the rest is looked through."""
_RESERVOIR = 1000
"""Untold candidates that are made at most, for one to be drawn from them."""


class Untold:
    """A space less what was told. All that it returns depends on the told set only.

    The space's candidates are made as far as they are needed, each once: told ones are passed over,
    and the first untold ones are kept.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._told: set[Candidate] = set()
        self._rest = space.candidates()
        self._first: dict[Candidate, None] = {}

    def __contains__(self, candidate: Candidate) -> bool:
        return candidate not in self._told

    @property
    def told(self) -> int:
        """How many different candidates were told."""
        return len(self._told)

    def tell(self, candidate: Candidate) -> None:
        self._told.add(candidate)
        self._first.pop(candidate, None)

    def first(self, count: int = 1, beside: Collection[Candidate] = ()) -> list[Candidate]:
        """The first untold candidates in the space's order less `beside`, at most `count`."""
        while len(self._first) < count + len(beside):
            candidate = next(self._rest, None)
            if candidate is None:
                break
            if candidate in self:
                self._first[candidate] = None
        return list(islice((c for c in self._first if c not in beside), count))

    def draw(self, rng: random.Random, beside: Collection[Candidate] = ()) -> Candidate | None:
        """One at random, value by value; if most are told one of the first; None if all are.

        It is none of `beside`.
        """
        for _ in range(_ATTEMPTS):
            candidate = self._space.build(lambda question: rng.choice(question.values))
            if candidate in self and candidate not in beside:
                return candidate
        first = self.first(_RESERVOIR, beside)
        return rng.choice(first) if first else None

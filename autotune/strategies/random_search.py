"""Candidates at random: what every other strategy has to beat."""

import random
from collections.abc import Collection

from autotune.model import Candidate
from autotune.space.space import Space
from autotune.strategies.base import SearchStrategy
from autotune.strategies.untold import Untold


class RandomStrategy(SearchStrategy):
    """Every value of a knob is as likely as the others; values told make no difference."""

    def __init__(self, space: Space, seed: int) -> None:
        self._seed = seed
        self._untold = Untold(space)

    def ask(self, beside: Collection[Candidate] = ()) -> Candidate | None:
        known = self._untold.told + len(beside)
        return self._untold.draw(random.Random(f"{self._seed}:{known}"), beside)

    def tell(self, candidate: Candidate, value: float | None) -> None:
        del value
        self._untold.tell(candidate)

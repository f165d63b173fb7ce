"""All candidates, one after the other."""

from collections.abc import Collection

from autotune.model import Candidate
from autotune.space.space import Space
from autotune.strategies.base import SearchStrategy
from autotune.strategies.untold import Untold


class GridStrategy(SearchStrategy):
    """The space in its own order: the last knobs change fastest, the baseline's values first."""

    patience = None

    def __init__(self, space: Space) -> None:
        self._untold = Untold(space)

    def ask(self, beside: Collection[Candidate] = ()) -> Candidate | None:
        return next(iter(self._untold.first(1, beside)), None)

    def tell(self, candidate: Candidate, value: float | None) -> None:
        del value
        self._untold.tell(candidate)

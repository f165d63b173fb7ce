"""All candidates, one after the other."""

from autotune.model import Candidate
from autotune.space.space import Space
from autotune.strategies.base import SearchStrategy
from autotune.strategies.untold import Untold


class GridStrategy(SearchStrategy):
    """The space in its own order: the last knobs change fastest, the baseline's values first."""

    patience = None

    def __init__(self, space: Space) -> None:
        self._untold = Untold(space)

    def ask(self) -> Candidate | None:
        return next(iter(self._untold.first()), None)

    def tell(self, candidate: Candidate, value: float | None) -> None:
        del value
        self._untold.tell(candidate)

"""What every search strategy promises."""

from abc import ABC, abstractmethod

from autotune.model import Candidate


class SearchStrategy(ABC):
    """Proposes candidates and learns from their values. It knows nothing of launching.

    The store is the truth: a strategy is rebuilt by telling it the stored results in their order,
    and then asks as it would have. So `ask` depends on the seed and on what was told, only.
    """

    exhausted = "every candidate was tried"
    """Why there is nothing to ask for any more, as a clause."""

    patience: int | None = 40
    """Trials without a better one, after which none is likely; None for a strategy that judges by
    itself, or tries everything."""

    @abstractmethod
    def ask(self) -> Candidate | None:
        """A candidate that hasn't been told yet; None when there is none left."""

    @abstractmethod
    def tell(self, candidate: Candidate, value: float | None) -> None:
        """The score of `candidate` (higher is better), or None if it is infeasible."""

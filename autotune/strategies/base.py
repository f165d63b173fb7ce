"""What every search strategy promises."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass

from autotune.model import Candidate


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A belief about one candidate beside another, in log(score)."""

    ahead: float
    deviation: float
    """Standard deviation of the belief."""


class SearchStrategy(ABC):
    """Proposes candidates and learns from their values. It knows nothing of launching.

    The store is the truth: a strategy is rebuilt by telling it the stored results in their order,
    and then asks as it would have. So `ask` depends on the seed, on what was told and on what is
    under way, only.
    """

    exhausted = "every candidate was tried"
    """Why there is nothing to ask for any more, as a clause."""

    patience: int | None = 40
    """Trials without a better one, after which none is likely; None for a strategy that judges by
    itself, or tries everything."""

    pivotal: Collection[Candidate] = ()
    """Candidates that much of the search turns on: on a noisy machine they are launched twice."""

    @abstractmethod
    def ask(self, beside: Collection[Candidate] = ()) -> Candidate | None:
        """A candidate that hasn't been told yet; None when there is none left.

        It is none of those `beside` it, which are under way and will be told.
        """

    def compare(self, one: Candidate, other: Candidate) -> Comparison | None:
        """How `one` and `other`, both told, are thought to differ; None without an opinion."""
        del one, other
        return None

    @abstractmethod
    def tell(self, candidate: Candidate, value: float | None) -> None:
        """The score of `candidate` (higher is better), or None if it is infeasible."""

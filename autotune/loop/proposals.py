"""Turns what the search proposes into what is worth a launch."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from autotune.loop.ledger import Ledger
from autotune.model import Candidate, Phase, Trial
from autotune.strategies.base import SearchStrategy

_MOST_SKIPPED = 1000
"""Proposals in a row that may be skipped before the search counts as exhausted."""


@dataclass(frozen=True, kw_only=True)
class Skip:
    """A candidate that needs no launch, and what the search is told of it."""

    value: float | None
    """The score that is known already; None for one that can't work."""
    reason: str


Judge = Callable[[Candidate, Ledger], Skip | None]
"""Whether a candidate can be skipped, by the trials so far; a pure function of both."""


@dataclass(kw_only=True)
class Proposals:
    """Asks the strategy until a candidate comes that is worth a launch.

    What is skipped is told to the strategy and not stored: a resumed study finds it out again, by
    asking wherever the study did.
    """

    strategy: SearchStrategy
    judges: Sequence[Judge]
    skipped: dict[Candidate, str] = field(default_factory=dict)
    _told: int = 0
    """Launches of earlier confirmations that the strategy was told of."""
    exhausted: bool = False
    """Nothing was left to propose when it was last asked for."""

    def ask(self, ledger: Ledger, beside: Collection[Candidate] = ()) -> Candidate | None:
        """The next candidate to launch, and a note if there is none.

        It is none of those `beside`, which are under way.
        """
        candidate = self.next(ledger)
        if candidate in beside:
            candidate = self._other(ledger, beside)
        self.exhausted = candidate is None
        return candidate

    def _other(self, ledger: Ledger, beside: Collection[Candidate]) -> Candidate | None:
        """One for while `next` proposes what is under way.

        The strategy isn't told what is passed over: a resume, which doesn't know what was under
        way, couldn't tell it.
        """
        passed = dict.fromkeys(beside)
        for _ in range(_MOST_SKIPPED):
            candidate = self.strategy.ask(passed.keys())
            if candidate is None or self._judge(candidate, ledger) is None:
                return candidate
            passed[candidate] = None
        return None

    def next(self, ledger: Ledger) -> Candidate | None:
        """The next candidate to launch; None when there is none."""
        for _ in range(_MOST_SKIPPED):
            candidate = self.strategy.ask()
            if candidate is None:
                return None
            skip = self._judge(candidate, ledger)
            if skip is None:
                return candidate
            self.skipped[candidate] = skip.reason
            self.strategy.tell(candidate, skip.value)
        return None

    def tell(self, trial: Trial, ledger: Ledger) -> None:
        """Tell the strategy of the trial just added, if it says something about its candidate."""
        for candidate, value in ledger.afterwards[self._told :]:
            self.strategy.tell(candidate, value)
        self._told = len(ledger.afterwards)
        if trial.phase is not Phase.CONFIRM and trial.candidate not in ledger.open:
            self.strategy.tell(trial.candidate, ledger.values[trial.candidate])

    def _judge(self, candidate: Candidate, ledger: Ledger) -> Skip | None:
        for judge in self.judges:
            if skip := judge(candidate, ledger):
                return skip
        return None


def known_in_disguise(candidate: Candidate, ledger: Ledger) -> Skip | None:
    """Skip what equals a measured candidate but for knobs that do nothing."""
    twin = ledger.effects.twin(candidate)
    if twin is None:
        return None
    reasons = "; ".join(f"{n}: {why}" for n, why in ledger.effects.idle.of(candidate).items())
    value = ledger.values[twin.candidate]
    return Skip(value=value, reason=f"same as trial {twin.number}: {reasons}")

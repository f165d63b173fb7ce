"""The course of a study of which several trials may be under way at once, whoever launches them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from autotune.loop.ledger import Ledger
from autotune.loop.plan import Plan, Step
from autotune.loop.proposals import Proposals
from autotune.model import Phase, Trial

AnyProposals = TypeVar("AnyProposals", bound=Proposals)


@dataclass(kw_only=True)
class Course(Generic[AnyProposals]):
    """What a study knows and does next. Trials are numbered and learned from as they end.

    Only those of the search are under way at once. The baseline, contests and confirmation are each
    launched alone: beside others they would show something else.
    """

    plan: Plan
    ledger: Ledger
    proposals: AnyProposals
    under_way: list[Step] = field(default_factory=list)
    """What was launched and hasn't ended."""

    def replay(self, trials: Sequence[Trial]) -> None:
        """Go to where the study was after these trials.

        The search is asked before the same ones: what it proposes and needs no launch it learns
        from.
        """
        for trial in trials:
            is_again = trial.candidate in self.ledger.open
            # Beside others, the search was asked where it wouldn't be alone.
            is_searched = trial.phase is Phase.SEARCH and not is_again
            if is_searched or self.plan.asks(self.ledger, self.ledger.elapsed_s):
                self.proposals.ask(self.ledger)
            self._learn(trial)

    def next(self, elapsed_s: float) -> Step | None:
        """What to launch beside what is under way, which it then is, too.

        None if nothing can be launched until one of them has ended; or ever, if there are none.
        """
        if any(step.phase is not Phase.SEARCH for step in self.under_way):
            return None
        step = self._next(elapsed_s)
        if step is None or (self.under_way and step.phase is not Phase.SEARCH):
            return None
        self.under_way.append(step)
        return step

    def ended(self, step: Step, trial: Trial) -> None:
        """`step`, which was under way, has come to `trial`."""
        self.under_way.remove(step)
        self._learn(trial)

    def _learn(self, trial: Trial) -> None:
        self.ledger.add(trial)
        self.proposals.tell(trial, self.ledger)

    @property
    def next_number(self) -> int:
        """Of the next trial to end."""
        trials = self.ledger.trials
        return trials[-1].number + 1 if trials else 0

    def look_ahead(self, elapsed_s: float) -> None:
        """Have the search say whether it has anything left, without launching it."""
        self._next(elapsed_s)

    def _next(self, elapsed_s: float) -> Step | None:
        beside = dict.fromkeys(step.candidate for step in self.under_way).keys()
        return self.plan.next_step(
            self.ledger, elapsed_s, lambda: self.proposals.ask(self.ledger, beside), beside
        )

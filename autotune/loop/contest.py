"""Which candidates are still in question while the search has nothing to propose.

The best reading of many is partly luck, so close candidates get fresh launches, those most that can
still change who is confirmed. What they show may set the search going again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from autotune.loop.ledger import Ledger
from autotune.model import Candidate
from autotune.scoring.design import WORTHWHILE
from autotune.scoring.improvement import expected_improvement
from autotune.strategies.base import Comparison, SearchStrategy

MAX_LAUNCHES = 12
"""Of one contender; more than that is what confirmation is for."""
MOST_CONTENDERS = 40
CLOSE = 1.64
"""Standard errors of a difference beyond which one case of twenty lies."""
WORTH = 0.001
"""Expected gain, relative, of taking the better one of two, for which it is worth finding out."""


@dataclass(frozen=True, kw_only=True)
class Beliefs:
    """How measured candidates compare: by the strategy's model, else by their readings alone."""

    ledger: Ledger
    strategy: SearchStrategy

    def ranked(self) -> list[Candidate]:
        """The candidates that completed and never failed, the best first."""
        arms = self.ledger.arms.values()
        working = [arm.candidate for arm in arms if arm.rates and not arm.failed]
        return sorted(working, key=lambda candidate: -self.compare(candidate, working[0]).ahead)

    def may_gain(self, candidate: Candidate, other: Candidate) -> bool:
        """Whether it is open that `candidate` is better than `other`, by something that matters."""
        return not self.ledger.has_measured(other) or self.worth(candidate, other) >= WORTH

    def at_most(self, candidate: Candidate, other: Candidate) -> float:
        """How far `candidate` may be ahead of `other`, in log(score)."""
        found = self.compare(candidate, other)
        return found.ahead + CLOSE * found.deviation

    def worth(self, candidate: Candidate, other: Candidate) -> float:
        """What `candidate` is expected to gain over `other` if the better one is taken."""
        found = self.compare(candidate, other)
        return expected_improvement(found.ahead, found.deviation)

    def sure_gain(self, candidate: Candidate, other: Candidate) -> float:
        """What `candidate` is better by than `other` almost surely, relative; 0 or more."""
        found = self.compare(candidate, other)
        return max(0.0, math.expm1(found.ahead - CLOSE * found.deviation))

    def is_in_doubt(self, candidate: Candidate, other: Candidate) -> bool:
        """Whether one reading of `candidate` tells too little of a gain over `other`."""
        found = self._by_readings(candidate, other)
        open_ = CLOSE * found.deviation
        return open_ > math.log1p(WORTHWHILE) and found.ahead + open_ > 0

    def compare(self, one: Candidate, other: Candidate) -> Comparison:
        """What is thought of the two."""
        believed = self.strategy.compare(one, other)
        if believed is not None:
            return believed
        return self._by_readings(one, other)

    def _by_readings(self, one: Candidate, other: Candidate) -> Comparison:
        launches = [len(self.ledger.arms[arm].rates) for arm in (one, other)]
        return Comparison(
            ahead=self.ledger.log_score(one) - self.ledger.log_score(other),
            deviation=self.ledger.noise.launch * math.sqrt(sum(1 / count for count in launches)),
        )


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Candidates that may be better than the baseline, the one thought best first."""

    contenders: tuple[Candidate, ...]
    beliefs: Beliefs

    @classmethod
    def of(cls, ledger: Ledger, baseline: Candidate, strategy: SearchStrategy) -> "Contest":
        """The contest that the trials before confirmation have led to."""
        beliefs = Beliefs(ledger=ledger, strategy=strategy)
        idle = ledger.effects.idle
        # A candidate whose difference does nothing is another one: launching both tells nothing.
        seen = {idle.reduced(baseline)}
        chosen: list[Candidate] = []
        for candidate in beliefs.ranked():
            plain = idle.reduced(candidate)
            if plain not in seen and beliefs.may_gain(candidate, baseline):
                seen.add(plain)
                chosen.append(candidate)
            if len(chosen) == MOST_CONTENDERS:
                break
        return cls(contenders=tuple(chosen), beliefs=beliefs)

    @cached_property
    def rivals(self) -> Sequence[Candidate]:
        """Those that may be better than the first, which is among them."""
        best = self.contenders[:1]
        return [*best, *(c for c in self.contenders[1:] if self.beliefs.may_gain(c, best[0]))]

    def next(self) -> Candidate | None:
        """Who is launched again; None when that would change little.

        The best and whoever may be furthest ahead of it, in turns. Source: Kalyanakrishnan, Tewari,
        Auer and Stone, PAC Subset Selection in Stochastic Multi-armed Bandits (2012), LUCB.
        """
        launches = {arm: len(self.beliefs.ledger.arms[arm].rates) for arm in self.rivals}
        open_ = [arm for arm in self.rivals[1:] if launches[arm] < MAX_LAUNCHES]
        if not open_:
            return None
        best = self.rivals[0]
        challenger = max(open_, key=lambda arm: self.beliefs.at_most(arm, best))
        return min((best, challenger), key=lambda arm: launches[arm])

"""Which candidates are still in question once the search has ended, and who is measured next.

The best reading of many is partly luck, so close candidates get fresh launches, those most that can
still change who is confirmed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.loop.ledger import Ledger
from autotune.model import Candidate

FINALISTS = 2
MAX_LAUNCHES = 4
"""Of one contender; more than that is what confirmation is for."""
MOST_CONTENDERS = 6
CLOSE = 1.64
"""Standard errors of a difference within which a candidate may be the better one: it is missed in
one case of twenty."""


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Candidates that may be better than the baseline, the best reading first."""

    contenders: tuple[Candidate, ...]
    ledger: Ledger
    baseline: Candidate

    @classmethod
    def of(cls, ledger: Ledger, baseline: Candidate) -> "Contest":
        """The contest that the trials before confirmation have led to."""
        idle = ledger.effects.idle
        # A candidate whose difference does nothing is another one: launching both tells nothing.
        seen = {idle.reduced(baseline)}
        chosen: list[Candidate] = []
        arms = [arm for arm in ledger.arms.values() if arm.rates and not arm.failed]
        for arm in sorted(arms, key=lambda arm: -ledger.log_score(arm.candidate)):
            plain = idle.reduced(arm.candidate)
            if plain not in seen and _may_beat(ledger, arm.candidate, baseline):
                seen.add(plain)
                chosen.append(arm.candidate)
            if len(chosen) == MOST_CONTENDERS:
                break
        return cls(contenders=tuple(chosen), ledger=ledger, baseline=baseline)

    @property
    def rivals(self) -> Sequence[Candidate]:
        """Those that may be better than the first, which is among them."""
        best = self.contenders[:1]
        return [*best, *(c for c in self.contenders[1:] if _may_beat(self.ledger, c, best[0]))]

    def next(self) -> Candidate | None:
        """Who is launched again; None when that would change little."""
        rivals = self.rivals
        if len(rivals) < 2:
            return None
        launches = {arm: len(self.ledger.arms[arm].rates) for arm in rivals}
        least = min(rivals, key=lambda arm: launches[arm])
        return least if launches[least] < MAX_LAUNCHES else None

    @property
    def finalists(self) -> list[Candidate]:
        """Who is confirmed: the best, and the second if it may be better."""
        return list(self.rivals[:FINALISTS])


def hoped_gain(ledger: Ledger, baseline: Candidate, best: Candidate) -> float:
    """Half of what `best` has shown over the baseline: the rest may be luck."""
    if not ledger.has_measured(baseline):
        return 0.0
    ahead = ledger.log_rate(best) - ledger.log_rate(baseline)
    return max(0.0, math.expm1(ahead / 2))


def _may_beat(ledger: Ledger, candidate: Candidate, other: Candidate) -> bool:
    """Whether the readings leave it open that `candidate` is better than `other`."""
    if not ledger.has_measured(other):
        return True
    launches = [len(ledger.arms[arm].rates) for arm in (candidate, other)]
    error = ledger.noise.launch * math.sqrt(sum(1 / count for count in launches))
    return ledger.log_score(candidate) + CLOSE * error >= ledger.log_score(other)

"""What a study launches next: a pure function of its stored trials, so that it can be resumed."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autotune.loop.contest import FINALISTS, Contest
from autotune.loop.failures import hopeless
from autotune.loop.ledger import Ledger
from autotune.model import Candidate, Outcome, Phase, StudySpec
from autotune.scoring.design import MAX_ROUNDS, MIN_ROUNDS, rounds_needed, shown_at_least
from autotune.strategies.base import SearchStrategy

BASELINE_LAUNCHES = 3
NOISY_LAUNCHES = 5
"""Of the baseline, before a machine is given up as too noisy."""
BASELINE_EVERY = 10
"""Search trials between further launches of the baseline, which show noise and drift."""
MOST_CONTESTS = 36
"""Fresh launches of contenders, all together."""
CONFIRM_SHARE = 0.6
"""Most of a time budget that confirmation may be given beyond its least, at the search's cost."""
MARGIN = 1.1
"""What launches may take longer than before."""
LEAST_LAUNCHES = BASELINE_LAUNCHES + 1 + 2 * MIN_ROUNDS
"""Of the smallest study that can confirm anything."""
INDISTINCT = 0.25
"""Log ratio: a machine on which no smaller gain can be shown tells nothing."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One trial to launch."""

    phase: Phase
    candidate: Candidate


Ask = Callable[[], Candidate | None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Decides on the next step of one study."""

    spec: StudySpec
    baseline: Candidate
    strategy: SearchStrategy
    """For what it thinks of candidates; it is asked for new ones elsewhere."""
    _contests: dict[int, Contest] = field(default_factory=dict, init=False)

    def next_step(self, ledger: Ledger, elapsed_s: float, ask: Ask) -> Step | None:
        """The next trial to launch; None when the study has ended or can't go on."""
        trials = ledger.trials
        if hopeless(trials) or diverges(ledger):
            return None
        if ledger.is_open:
            return Step(phase=trials[-1].phase, candidate=trials[-1].candidate)
        if self._needs_baseline(ledger):
            return Step(phase=Phase.BASELINE, candidate=self.baseline)
        if is_too_noisy(ledger):
            return None
        if second_look := self._second_look(ledger, elapsed_s):
            return second_look
        if self._is_searching(ledger, elapsed_s) and (candidate := ask()):
            return Step(phase=Phase.SEARCH, candidate=candidate)
        return self._contend(ledger, elapsed_s) or self._confirm(ledger, elapsed_s)

    def finalists(self, ledger: Ledger) -> list[Candidate]:
        """The candidates that are measured against the baseline: one, if time is short."""
        finalists = self._contest(ledger).finalists
        if self.spec.budget_s is None or len(finalists) < 2:
            return finalists
        # By the trials' own time, so that a resumed study has the same finalists.
        left_s = self.spec.budget_s - ledger.unconfirmed_s
        launches = MIN_ROUNDS * (1 + len(finalists))
        return finalists if launches * MARGIN * ledger.launch_s() <= left_s else finalists[:1]

    def arms(self, ledger: Ledger) -> list[Candidate]:
        """What each round of confirmation launches: the finalists, and the baseline if it runs."""
        runs = ledger.has_measured(self.baseline)
        return ([self.baseline] if runs else []) + self.finalists(ledger)

    def rounds(self, ledger: Ledger) -> int:
        """How many rounds confirmation takes, by what is known before it."""
        return self._rounds(ledger, self.finalists(ledger))

    def _rounds(self, ledger: Ledger, finalists: Sequence[Candidate]) -> int:
        if not finalists or not ledger.has_measured(self.baseline):
            return MIN_ROUNDS
        gain = self._contest(ledger).beliefs.sure_gain(finalists[0], self.baseline)
        return rounds_needed(ledger.noise.cautious, gain, len(finalists))

    def _contest(self, ledger: Ledger) -> Contest:
        """Of the trials before confirmation: worked out once for each number of them."""
        if ledger.unconfirmed not in self._contests:
            self._contests.clear()
            self._contests[ledger.unconfirmed] = Contest.of(ledger, self.baseline, self.strategy)
        return self._contests[ledger.unconfirmed]

    def why_ended(self, ledger: Ledger, exhausted: str) -> str:
        """Why the search went no further, as a clause; `exhausted` if it had nothing left."""
        tried = len(ledger.searched)
        if exhausted or not tried:
            return exhausted
        if self.spec.max_trials is not None and tried >= self.spec.max_trials:
            return f"as many candidates as asked for were tried ({tried})"
        if self._is_out_of_patience(ledger):
            return f"the last {self.strategy.patience} candidates brought nothing better"
        return "the time left is for confirmation"

    def _needs_baseline(self, ledger: Ledger) -> bool:
        launches = ledger.baselines
        if any(trial.outcome is Outcome.OUT_OF_MEMORY for trial in launches):
            return False
        if len(launches) < BASELINE_LAUNCHES:
            return True
        if is_too_noisy(ledger):
            return len(launches) < NOISY_LAUNCHES
        if not ledger.has_measured(self.baseline) or ledger.confirmations:
            return False
        return len(ledger.searched) // BASELINE_EVERY > len(launches) - BASELINE_LAUNCHES

    def _is_searching(self, ledger: Ledger, elapsed_s: float) -> bool:
        if ledger.confirmations:
            return False
        tried = len(ledger.searched)
        if self.spec.max_trials is not None and tried >= self.spec.max_trials:
            return False
        if self._is_out_of_patience(ledger):
            return False
        return self._fits(ledger.launch_s() + self._reserve_s(ledger), elapsed_s)

    def _is_out_of_patience(self, ledger: Ledger) -> bool:
        patience = self.strategy.patience
        return patience is not None and len(ledger.searched) - ledger.last_gain >= patience

    def _reserve_s(self, ledger: Ledger) -> float:
        """Seconds that are kept for confirmation: for its least in any case."""
        launch_s = ledger.launch_s()
        least_s = 2 * MIN_ROUNDS * launch_s
        if self.spec.budget_s is None or ledger.leading in (None, self.baseline):
            # As long as nothing is better, time is kept for one finalist that may still turn up.
            return least_s
        finalists = [ledger.leading] * FINALISTS
        launches = self._rounds(ledger, finalists) * (1 + FINALISTS) + MOST_CONTESTS
        return max(least_s, min(launch_s * launches, self.spec.budget_s * CONFIRM_SHARE))

    def _second_look(self, ledger: Ledger, elapsed_s: float) -> Step | None:
        """A new leader is launched again at once, so that luck doesn't steer the search."""
        leading = ledger.leading
        if leading is None or leading == self.baseline or len(ledger.arms[leading].rates) > 1:
            return None
        return self._fresh_launch(leading, ledger, elapsed_s)

    def _contend(self, ledger: Ledger, elapsed_s: float) -> Step | None:
        contender = self._contest(ledger).next()
        return self._fresh_launch(contender, ledger, elapsed_s) if contender else None

    def _fresh_launch(self, contender: Candidate, ledger: Ledger, elapsed_s: float) -> Step | None:
        least_s = (1 + 2 * MIN_ROUNDS) * ledger.launch_s()
        if ledger.confirmations or ledger.contests >= MOST_CONTESTS:
            return None
        if not self._fits(least_s, elapsed_s):
            return None
        return Step(phase=Phase.CONTEND, candidate=contender)

    def _confirm(self, ledger: Ledger, elapsed_s: float) -> Step | None:
        arms = self.arms(ledger)
        done = sum(map(len, ledger.confirmations.values()))
        if not self.finalists(ledger) or done >= self.rounds(ledger) * len(arms):
            return None
        if done % len(arms) == 0 and not self._fits(len(arms) * ledger.launch_s(), elapsed_s):
            return None
        order = list(arms)
        random.Random(f"{self.spec.seed}:round:{done // len(arms)}").shuffle(order)
        return Step(phase=Phase.CONFIRM, candidate=order[done % len(arms)])

    def _fits(self, seconds: float, elapsed_s: float) -> bool:
        return self.spec.budget_s is None or elapsed_s + seconds <= self.spec.budget_s


def diverges(ledger: Ledger) -> bool:
    """Whether the baseline's own loss isn't finite, so that there is nothing to compare with."""
    return any(trial.outcome is Outcome.DIVERGED for trial in ledger.baselines)


def is_too_noisy(ledger: Ledger) -> bool:
    """Whether launches differ so much that nothing could be told apart."""
    if ledger.searched or len(ledger.baselines) < BASELINE_LAUNCHES:
        return False
    return shown_at_least(ledger.noise.launch, MAX_ROUNDS) > INDISTINCT

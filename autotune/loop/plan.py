"""What a study launches next: a pure function of its stored trials, so that it can be resumed."""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from autotune.loop.contest import Beliefs, Contest
from autotune.loop.failures import hopeless
from autotune.loop.ledger import Ledger
from autotune.loop.rounds import complete_rounds, is_futile, noise_with, rates
from autotune.model import Candidate, Outcome, Phase, StudySpec, Timings
from autotune.scoring.compare import ratios
from autotune.scoring.design import MAX_ROUNDS, MIN_ROUNDS, rounds_needed, shown_at_least
from autotune.scoring.looks import share
from autotune.scoring.noise import Noise
from autotune.strategies.base import SearchStrategy

BASELINE_LAUNCHES = 3
NOISY_LAUNCHES = 5
"""Of the baseline, before a machine is given up as too noisy."""
BASELINE_EVERY = 10
"""Search trials between further launches of the baseline, which show noise and drift."""
MOST_CONTESTS = 120
"""Fresh launches of contenders, all together."""
RESERVED_CONTESTS = 48
"""Of them, those that a time budget keeps time for."""
CONFIRMATIONS = (0.5, 0.25, 0.25)
"""What each confirmation may spend of the error: a second and a third follow if the one before has
shown no gain."""
WORTH_ANOTHER = 0.003
"""Expected gain, relative, of the next best over the baseline, for which it is confirmed too."""
CONFIRM_SHARE = 0.6
"""Most of a time budget that confirmation may be given beyond its least, at the search's cost."""
ROUNDS_SHARE = 0.75
"""Most of that share which the contest leaves to the rounds of confirmation: close candidates that
are told apart too well leave too few rounds to show a gain."""
MARGIN = 1.1
"""What launches may take longer than before."""
LEAST_LAUNCHES = BASELINE_LAUNCHES + 1 + 2 * MIN_ROUNDS
"""Of the smallest study that can confirm anything."""
INDISTINCT = 0.17
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
    until_s: float | None = None
    """Where this invocation has to end, in seconds of the study, if its budget doesn't end it."""
    _contests: dict[int, Contest] = field(default_factory=dict, init=False)

    def next_step(
        self, ledger: Ledger, elapsed_s: float, ask: Ask, beside: Collection[Candidate] = ()
    ) -> Step | None:
        """The next trial to launch; None when the study has ended or can't go on.

        `beside` are the candidates of trials that are under way.
        """
        trials = ledger.trials
        if hopeless(trials) or diverges(ledger):
            return None
        if self.until_s is not None and elapsed_s >= self.until_s:
            return None
        if first := self._before_search(ledger, elapsed_s, beside):
            return first
        if is_too_noisy(ledger):
            return None
        if self._is_searching(ledger, elapsed_s, len(beside)) and (candidate := ask()):
            return Step(phase=Phase.SEARCH, candidate=candidate)
        return (
            self._contend(ledger, elapsed_s)
            or self._confirm(ledger, elapsed_s)
            or self._try_another(ledger, elapsed_s)
        )

    def asks(self, ledger: Ledger, elapsed_s: float) -> bool:
        """Whether `next_step` asks for a candidate, with nothing under way."""
        if self._before_search(ledger, elapsed_s, ()) or is_too_noisy(ledger):
            return False
        return self._is_searching(ledger, elapsed_s, 0)

    def _before_search(
        self, ledger: Ledger, elapsed_s: float, beside: Collection[Candidate]
    ) -> Step | None:
        """What is launched whatever the search has to propose."""
        if again := next((c for c in ledger.open if c not in beside), None):
            return Step(phase=ledger.open[again], candidate=again)
        if self._needs_baseline(ledger, elapsed_s):
            return Step(phase=Phase.BASELINE, candidate=self.baseline)
        return None if is_too_noisy(ledger) else self._second_look(ledger, elapsed_s)

    def finalists(self, ledger: Ledger) -> list[Candidate]:
        """Who is measured against the baseline: the one thought best, if it may be better."""
        return list(self._contest(ledger).contenders[:1])

    def arms(self, ledger: Ledger) -> list[Candidate]:
        """What each round of confirmation launches: the finalists, and the baseline if it runs."""
        runs = ledger.has_measured(self.baseline)
        return ([self.baseline] if runs else []) + self.finalists(ledger)

    def rounds(self, ledger: Ledger) -> int:
        """How many rounds confirmation takes: by the gain that the search leaves in no doubt.

        And by the noise, of which the first rounds tell more.
        """
        noise = noise_with(ledger.noise, self.complete_rounds(ledger), self.baseline)
        return self._rounds(ledger, self.finalists(ledger), noise)

    def complete_rounds(self, ledger: Ledger) -> dict[Candidate, list[Timings]]:
        """What the rounds measured that all arms completed."""
        return complete_rounds(self.arms(ledger), self.baseline, ledger.confirmations)

    def _rounds(self, ledger: Ledger, finalists: Sequence[Candidate], noise: Noise) -> int:
        if not finalists or not ledger.has_measured(self.baseline):
            return MIN_ROUNDS
        gain = self._contest(ledger).beliefs.sure_gain(finalists[0], self.baseline)
        return rounds_needed(noise.launch, gain, CONFIRMATIONS[len(ledger.refuted)])

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
        if self._has_tried_enough(tried):
            return f"as many candidates as asked for were tried ({tried})"
        if self._is_out_of_patience(ledger):
            return f"the last {self.strategy.patience} candidates brought nothing better"
        if self.limit_s is None or hopeless(ledger.trials) or diverges(ledger):
            return ""  # the answer itself says why
        return "the time left is for confirmation"

    def _needs_baseline(self, ledger: Ledger, elapsed_s: float) -> bool:
        launches = ledger.baselines
        if any(trial.outcome is Outcome.OUT_OF_MEMORY for trial in launches):
            return False
        if launches and not ledger.has_measured(self.baseline) and not self._fits(0, elapsed_s):
            return False
        if len(launches) < BASELINE_LAUNCHES:
            return True
        if is_too_noisy(ledger):
            return len(launches) < NOISY_LAUNCHES
        if not ledger.has_measured(self.baseline) or ledger.confirmations:
            return False
        return len(ledger.searched) // BASELINE_EVERY > len(launches) - BASELINE_LAUNCHES

    def _is_searching(self, ledger: Ledger, elapsed_s: float, under_way: int) -> bool:
        if ledger.confirmations:
            return False
        if self._has_tried_enough(len(ledger.searched) + under_way):
            return False
        if self._is_out_of_patience(ledger):
            return False
        return self._fits(ledger.launch_s() + self._reserve_s(ledger), elapsed_s)

    def has_searched_all(self, ledger: Ledger, exhausted: str) -> bool:
        """Whether more time would not have had more candidates tried."""
        tried = len(ledger.searched)
        return bool(exhausted) or self._has_tried_enough(tried) or self._is_out_of_patience(ledger)

    def _has_tried_enough(self, tried: int) -> bool:
        return self.spec.max_trials is not None and tried >= self.spec.max_trials

    def _is_out_of_patience(self, ledger: Ledger) -> bool:
        patience = self.strategy.patience
        return patience is not None and len(ledger.searched) - ledger.last_gain >= patience

    def _reserve_s(self, ledger: Ledger) -> float:
        """Seconds that the search keeps for confirmation, and for the contest before it."""
        leading = ledger.leading
        if self.limit_s is None or leading in (None, self.baseline):
            # As long as nothing is better, time is kept for one finalist that may still turn up.
            return self._least_s(ledger)
        contest_s = RESERVED_CONTESTS * ledger.launch_s()
        wanted_s = contest_s + self._rounds_s(ledger, leading)
        return max(self._least_s(ledger), min(wanted_s, self.limit_s * CONFIRM_SHARE))

    def _confirm_s(self, ledger: Ledger, contender: Candidate) -> float:
        """Seconds that the contest keeps for confirmation."""
        if self.limit_s is None:
            return self._least_s(ledger)
        most_s = self.limit_s * CONFIRM_SHARE * ROUNDS_SHARE
        return max(self._least_s(ledger), min(self._rounds_s(ledger, contender), most_s))

    def _rounds_s(self, ledger: Ledger, finalist: Candidate) -> float:
        return 2 * self._rounds(ledger, [finalist], ledger.noise) * ledger.launch_s()

    def _least_s(self, ledger: Ledger) -> float:
        return 2 * MIN_ROUNDS * ledger.launch_s()

    def _second_look(self, ledger: Ledger, elapsed_s: float) -> Step | None:
        """What one reading must not decide is launched again at once: luck would steer the search.

        That is a new leader, and what much of the search turns on.
        """
        leading = ledger.leading
        if leading is not None and leading != self.baseline and ledger.launches(leading) == 1:
            return self._fresh_launch(leading, ledger, elapsed_s)
        last = [trial.candidate for trial in ledger.searched[-1:]]
        doubted = [c for c in last if c in self.strategy.pivotal and self._is_in_doubt(c, ledger)]
        return self._fresh_launch(doubted[0], ledger, elapsed_s) if doubted else None

    def _is_in_doubt(self, candidate: Candidate, ledger: Ledger) -> bool:
        if ledger.launches(candidate) != 1 or not ledger.has_measured(self.baseline):
            return False
        beliefs = Beliefs(ledger=ledger, strategy=self.strategy)
        return beliefs.is_in_doubt(candidate, self.baseline)

    def _contend(self, ledger: Ledger, elapsed_s: float) -> Step | None:
        contender = self._contest(ledger).next()
        return self._fresh_launch(contender, ledger, elapsed_s) if contender else None

    def _fresh_launch(self, contender: Candidate, ledger: Ledger, elapsed_s: float) -> Step | None:
        if ledger.confirmations or ledger.contests >= MOST_CONTESTS:
            return None
        if not self._fits(ledger.launch_s() + self._confirm_s(ledger, contender), elapsed_s):
            return None
        return Step(phase=Phase.CONTEND, candidate=contender)

    def rounds_done(self, ledger: Ledger) -> int:
        """How many rounds have been launched completely."""
        return sum(map(len, ledger.confirmations.values())) // len(self.arms(ledger))

    def _confirm(self, ledger: Ledger, elapsed_s: float) -> Step | None:
        if not self.finalists(ledger):
            return None
        arms = self.arms(ledger)
        done = sum(map(len, ledger.confirmations.values()))
        if done % len(arms) == 0 and not self._has_another_round(ledger, elapsed_s):
            return None
        order = list(arms)
        random.Random(f"{self.spec.seed}:round:{done // len(arms)}").shuffle(order)
        return Step(phase=Phase.CONFIRM, candidate=order[done % len(arms)])

    def _has_another_round(self, ledger: Ledger, elapsed_s: float) -> bool:
        """Whether more rounds are needed, and fit the time."""
        planned, done = self.rounds(ledger), self.rounds_done(ledger)
        if done >= planned:
            return False
        if is_futile(self.complete_rounds(ledger), self.baseline, done, planned):
            return False
        return self._fits(len(self.arms(ledger)) * ledger.launch_s(), elapsed_s)

    def _try_another(self, ledger: Ledger, elapsed_s: float) -> Step | None:
        """The next best, launched once more, when the rounds have shown no gain.

        What the rounds measured counts in the contest from then on.
        """
        if not ledger.confirmations or not ledger.has_measured(self.baseline):
            return None
        if len(ledger.refuted) + 1 == len(CONFIRMATIONS) or self.has_shown_gain(ledger):
            return None
        contest, finalists = self._contest(ledger), self.finalists(ledger)
        others = [arm for arm in contest.contenders if arm not in finalists]
        least_s = ledger.launch_s() + self._least_s(ledger)
        if not others or not self._fits(least_s, elapsed_s):
            return None
        if contest.beliefs.worth(others[0], self.baseline) < WORTH_ANOTHER:
            return None
        return Step(phase=Phase.CONTEND, candidate=others[0])

    def spent(self, ledger: Ledger) -> float:
        """What the intervals of the latest confirmation may spend of the error."""
        early = share(self.rounds_done(ledger), self.rounds(ledger))
        return early * CONFIRMATIONS[len(ledger.refuted)]

    def has_shown_gain(self, ledger: Ledger) -> bool:
        """Whether the latest confirmation's intervals show a gain."""
        finalists = rates(self.complete_rounds(ledger))
        reference = finalists.pop(self.baseline)
        if len(reference) < MIN_ROUNDS or not finalists:
            return False
        found = ratios(reference, finalists, share=self.spent(ledger))
        return any(ratio.low > 1 for ratio in found.values())

    def _fits(self, seconds: float, elapsed_s: float) -> bool:
        return self.limit_s is None or elapsed_s + seconds <= self.limit_s

    @property
    def limit_s(self) -> float | None:
        """Where the study's seconds end: at its budget, or sooner in this invocation."""
        return min((s for s in (self.spec.budget_s, self.until_s) if s is not None), default=None)

    @property
    def is_cut_short(self) -> bool:
        """Whether this invocation has less time than the study."""
        return self.until_s is not None and self.limit_s != self.spec.budget_s


def diverges(ledger: Ledger) -> bool:
    """Whether the baseline's own loss isn't finite, so that there is nothing to compare with."""
    return any(trial.outcome is Outcome.DIVERGED for trial in ledger.baselines)


def is_too_noisy(ledger: Ledger) -> bool:
    """Whether launches differ so much that nothing could be told apart."""
    if ledger.searched or len(ledger.baselines) < BASELINE_LAUNCHES:
        return False
    return is_indistinct(ledger)


def is_indistinct(ledger: Ledger) -> bool:
    """Whether the noise, by all launches so far, hides what a study is there to find."""
    return shown_at_least(ledger.noise.launch, MAX_ROUNDS) > INDISTINCT

"""What a study launches next: a pure function of its stored trials, so that it can be resumed."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from autotune.loop.effects import EffectLog
from autotune.loop.history import (
    MAX_ATTEMPTS,
    by_score,
    failed_attempts,
    failed_in_a_row,
    final,
    mean_rate,
)
from autotune.model import Candidate, Outcome, Phase, StudySpec, Trial

BASELINE_LAUNCHES = 2
FINALISTS = 2
ROUNDS = 5
CLOSE = 0.9
"""Share of the baseline's samples/s that a finalist has to have reached: launches on quiet machines
differ by 3 to 4 %, so what fell further behind would need a reading three deviations off."""
MIN_ROUNDS = 2
"""Fewer rounds give no interval: the answer is then unconfirmed."""
CONFIRM_SHARE = 0.6
"""Most of a time budget that confirmation may be given, at the search's expense."""
HOPELESS = 10
"""Failures in a row, with no success in the study, after which it stops."""


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
    effects: EffectLog
    baseline: Candidate

    def next_step(self, trials: Sequence[Trial], elapsed_s: float, ask: Ask) -> Step | None:
        """The next trial to launch; None when the study has ended or can't go on."""
        if self._is_hopeless(trials):
            return None
        if trials and not trials[-1].outcome.is_final:
            return Step(phase=trials[-1].phase, candidate=trials[-1].candidate)
        if self._needs_baseline(trials):
            return Step(phase=Phase.BASELINE, candidate=self.baseline)
        if self._is_searching(trials, elapsed_s) and (candidate := ask()):
            return Step(phase=Phase.SEARCH, candidate=candidate)
        return self._confirm(trials, elapsed_s)

    def finalists(self, trials: Sequence[Trial]) -> list[Candidate]:
        """The candidates that are measured against the baseline: the best of those close to it.

        By the search alone: confirmation must not change whom it confirms.
        """
        trials = [trial for trial in trials if trial.phase is not Phase.CONFIRM]
        least = CLOSE * mean_rate(final(trials, Phase.BASELINE))
        idle = self.effects.idle(trials)
        # A candidate whose difference does nothing is another one: launching both tells nothing.
        seen = {idle.reduced(self.baseline)}
        chosen: list[Candidate] = []
        for candidate in by_score(trials):
            plain = idle.reduced(candidate)
            rate = mean_rate(t for t in trials if t.candidate == candidate)
            if plain not in seen and rate >= least and len(chosen) < FINALISTS:
                chosen.append(candidate)
                seen.add(plain)
        return chosen

    def arms(self, trials: Sequence[Trial]) -> list[Candidate]:
        """What each round of confirmation launches: the finalists, and the baseline if it runs."""
        runs = any(trial.scored for trial in final(trials, Phase.BASELINE))
        return ([self.baseline] if runs else []) + self.finalists(trials)

    def is_stuck(self, trials: Sequence[Trial]) -> bool:
        """Whether the machine, not the candidates, keeps trials from running.

        `trials` are those of this invocation: a person may have mended the machine before it.
        """
        return failed_attempts(trials) >= MAX_ATTEMPTS

    def _is_hopeless(self, trials: Sequence[Trial]) -> bool:
        failed = failed_in_a_row(trials)
        return failed >= HOPELESS and failed == sum(1 for t in trials if t.outcome.is_final)

    def _needs_baseline(self, trials: Sequence[Trial]) -> bool:
        launches = final(trials, Phase.BASELINE)
        if any(trial.outcome is Outcome.OUT_OF_MEMORY for trial in launches):
            return False
        return len(launches) < BASELINE_LAUNCHES

    def _is_searching(self, trials: Sequence[Trial], elapsed_s: float) -> bool:
        if any(trial.phase is Phase.CONFIRM for trial in trials):
            return False
        tried = len(final(trials, Phase.SEARCH))
        if self.spec.max_trials is not None and tried >= self.spec.max_trials:
            return False
        if self.spec.budget_s is None:
            return True
        launch_s = _launch_s(trials)
        close = len(self.finalists(trials))
        # As long as nothing is close, time is kept for one finalist that may still turn up.
        launches = ROUNDS * (1 + close) if close else MIN_ROUNDS * 2
        reserve_s = min(launch_s * launches, self.spec.budget_s * CONFIRM_SHARE)
        return elapsed_s + launch_s + reserve_s <= self.spec.budget_s

    def _confirm(self, trials: Sequence[Trial], elapsed_s: float) -> Step | None:
        arms = self.arms(trials)
        done = len(final(trials, Phase.CONFIRM))
        if not self.finalists(trials) or done >= ROUNDS * len(arms):
            return None
        if done % len(arms) == 0 and not self._round_fits(trials, len(arms), elapsed_s):
            return None
        order = list(arms)
        random.Random(f"{self.spec.seed}:round:{done // len(arms)}").shuffle(order)
        return Step(phase=Phase.CONFIRM, candidate=order[done % len(arms)])

    def _round_fits(self, trials: Sequence[Trial], arms: int, elapsed_s: float) -> bool:
        if self.spec.budget_s is None:
            return True
        return elapsed_s + arms * _launch_s(trials) <= self.spec.budget_s


def _launch_s(trials: Sequence[Trial]) -> float:
    """Seconds that a launch takes, from those that ended; 0 before the first."""
    seconds = [trial.seconds for trial in trials if trial.outcome.is_final]
    return fmean(seconds) if seconds else 0.0

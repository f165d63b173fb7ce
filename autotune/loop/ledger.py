"""What a study knows, folded from its trials one by one: so that a resume knows the same."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from autotune.loop.effects import EffectLog
from autotune.model import AnyMeasurement, Candidate, Lesson, Outcome, Phase, Trial
from autotune.scoring.drift import Drift, Timed, drift
from autotune.scoring.noise import PRIOR_LAUNCH, PRIOR_WINDOW, Noise, Pool
from autotune.scoring.racing import Leader
from autotune.scoring.score import score
from autotune.space.space import Space


@dataclass(kw_only=True)
class Arm:
    """The completed launches of one candidate, those of confirmation left out."""

    candidate: Candidate
    rates: list[Timed] = field(default_factory=list)
    failed: bool = False
    """One of its launches was infeasible."""
    mean_at_s: float = 0.0
    mean_log_rate: float = 0.0
    mean_log_score: float = 0.0

    def add(self, at_s: float, log_rate: float, log_score: float) -> None:
        """Take in a launch: the means are kept, for the leader is looked for among thousands."""
        self.rates.append(Timed(at_s=at_s, log_rate=log_rate))
        weight = 1 / len(self.rates)
        self.mean_at_s += weight * (at_s - self.mean_at_s)
        self.mean_log_rate += weight * (log_rate - self.mean_log_rate)
        self.mean_log_score += weight * (log_score - self.mean_log_score)


class Ledger:
    """The trials of one study and what follows from them. `add` is the only change."""

    def __init__(self, space: Space) -> None:
        self.trials: list[Trial] = []
        self.open: dict[Candidate, Phase] = {}
        """Candidates whose last trial says nothing of them, which are to be launched again."""
        self.effects = EffectLog(space)
        self.arms: dict[Candidate, Arm] = {}
        self.baselines: list[Trial] = []
        """Final launches of the baseline outside confirmation."""
        self.searched: list[Trial] = []
        """Final trials of the search."""
        self.contests = 0
        """Final launches of contenders, beside their first ones."""
        self.confirmations: dict[Candidate, list[Trial]] = {}
        """Final launches in rounds of the latest confirmation, for each arm in their order."""
        self.refuted: list[dict[Candidate, list[Trial]]] = []
        """The same of each confirmation that came before it."""
        self.afterwards: list[tuple[Candidate, float | None]] = []
        """What the search is told of them, in the order of launches."""
        self._rounds: list[tuple[Trial, float]] = []
        """Launches of the latest confirmation, with the second at which each began."""
        self.noise = Noise()
        self.has_repeats = False
        """Something was launched twice, so that `noise` is more than an assumption."""
        self.drift = Drift()
        self.last_gain = 0
        """Number of search trials after which the leader last changed."""
        self.values: dict[Candidate, float | None] = {}
        """What the search is told: the latest score, drift taken out; None if infeasible."""
        self._leader: Candidate | None = None
        self._windows = Pool(PRIOR_WINDOW)
        self._elapsed_s = 0.0
        self._attempts: Counter[Candidate] = Counter()
        """Launches of each open candidate that failed and said nothing of it."""
        self._slowest_s = 0.0
        self.unconfirmed = 0
        """Trials outside of confirmation."""

    def add(self, trial: Trial) -> None:
        """Take in the next trial."""
        at_s = self._elapsed_s
        self._elapsed_s += trial.seconds
        if trial.phase is not Phase.CONFIRM:
            self.unconfirmed += 1
            self._take_in_rounds()
        self.trials.append(trial)
        lesson = self._lesson(trial)
        if lesson is Lesson.NOTHING:
            self.open[trial.candidate] = trial.phase
            return
        self.open.pop(trial.candidate, None)
        self._slowest_s = max(self._slowest_s, trial.seconds)
        self._count(trial)
        if trial.phase is Phase.CONFIRM:
            # Confirmation must not change whom it confirms.
            self._rounds.append((trial, at_s))
        else:
            self.effects.add(trial)
            self._read(trial, lesson, at_s)
            self.values[trial.candidate] = self._value(trial, at_s)

    @property
    def elapsed_s(self) -> float:
        """Seconds that the trials have taken."""
        return self._elapsed_s

    @property
    def leader(self) -> Leader | None:
        """The candidate with the best readings before confirmation."""
        if self._leader is None:
            return None
        arm = self.arms[self._leader]
        return Leader(log_rate=self.log_rate(arm.candidate), launches=len(arm.rates))

    @property
    def leading(self) -> Candidate | None:
        return self._leader

    def log_rate(self, candidate: Candidate) -> float:
        """Mean log(samples/s) of a candidate's completed launches, drift taken out."""
        arm = self.arms[candidate]
        return self.drift.corrected(arm.mean_log_rate, arm.mean_at_s)

    def log_score(self, candidate: Candidate) -> float:
        """The same of log(score)."""
        arm = self.arms[candidate]
        return self.drift.corrected(arm.mean_log_score, arm.mean_at_s)

    def has_measured(self, candidate: Candidate) -> bool:
        return candidate in self.arms and bool(self.arms[candidate].rates)

    def launches(self, candidate: Candidate) -> int:
        """How often a candidate completed; 0 for one that fails."""
        arm = self.arms.get(candidate)
        return len(arm.rates) if arm and not arm.failed else 0

    def launch_s(self) -> float:
        """Seconds that a launch takes that isn't stopped early; 0 before the first.

        The shortest, for the first one may read files that are in memory later.
        """
        whole = [trial.seconds for trial in self.baselines if trial.scored]
        return min(whole) if whole else self._slowest_s

    def _count(self, trial: Trial) -> None:
        match trial.phase:
            case Phase.BASELINE:
                self.baselines.append(trial)
            case Phase.SEARCH:
                self.searched.append(trial)
            case Phase.CONTEND:
                self.contests += 1
            case Phase.CONFIRM:
                self.confirmations.setdefault(trial.candidate, []).append(trial)

    def _take_in_rounds(self) -> None:
        """Learn from a confirmation that is over, since another trial follows it."""
        for trial, at_s in self._rounds:
            lesson = trial.outcome.treatment.lesson
            self._read(trial, Lesson.INFEASIBLE if lesson is Lesson.NOTHING else lesson, at_s)
            self.afterwards.append((trial.candidate, self._value(trial, at_s)))
        if self.confirmations:
            self.refuted.append(self.confirmations)
        self._rounds, self.confirmations = [], {}

    def _lesson(self, trial: Trial) -> Lesson:
        """What a trial teaches; its candidate is given up once all its retries have failed."""
        candidate, treatment = trial.candidate, trial.outcome.treatment
        if treatment.lesson is Lesson.NOTHING:
            self._attempts[candidate] += trial.outcome is not Outcome.CANCELLED
            if not treatment.gives_up or self._attempts[candidate] <= treatment.retries:
                return Lesson.NOTHING
        del self._attempts[candidate]
        return Lesson.INFEASIBLE if treatment.lesson is Lesson.NOTHING else treatment.lesson

    def _read(self, trial: Trial, lesson: Lesson, at_s: float) -> None:
        arm = self.arms.setdefault(trial.candidate, Arm(candidate=trial.candidate))
        arm.failed |= lesson is Lesson.INFEASIBLE
        if trial.scored is None:
            if trial.candidate == self._leader:
                self._lead(self.arms.values())
            return
        found = score(trial.scored)
        arm.add(at_s, math.log(found.samples_per_second), math.log(found.value))
        self._windows.add([math.log(w.samples_per_second) for w in trial.scored.windows])
        if len(arm.rates) > 1:
            self._learn_noise()
        self.noise = replace(self.noise, window=self._windows.deviation)
        leader = self._leader if len(arm.rates) == 1 else None
        # A repeated launch may have changed the drift, and with it all readings.
        self._lead([self.arms[leader], arm] if leader else self.arms.values())

    def _learn_noise(self) -> None:
        self.has_repeats = True
        # Others are launched again because they read well: their later readings tend to be lower.
        scheduled = {trial.candidate: None for trial in self.baselines}
        self.drift = drift([self.arms[c].rates for c in scheduled if c in self.arms])
        repeated = [arm.rates for arm in self.arms.values() if len(arm.rates) > 1]
        pool = Pool(PRIOR_LAUNCH)
        for rates in repeated:
            pool.add([self.drift.corrected(one.log_rate, one.at_s) for one in rates])
        self.noise = replace(self.noise, launch=pool.deviation, freedom=pool.freedom)

    def _lead(self, arms: Iterable[Arm]) -> None:
        """Have the best of `arms` lead."""
        before = self._leader
        working = [arm.candidate for arm in arms if arm.rates and not arm.failed]
        self._leader = max(working, key=self.log_score, default=None)
        if self._leader != before:
            self.last_gain = len(self.searched)

    def _value(self, trial: Trial, at_s: float) -> float | None:
        measurement = timed(trial)
        if measurement is None:
            return None
        return math.exp(self.drift.corrected(math.log(score(measurement).value), at_s))


def timed(trial: Trial) -> AnyMeasurement | None:
    """What a trial measured, also if it was stopped early."""
    return trial.measurement if trial.outcome in (Outcome.COMPLETED, Outcome.PRUNED) else None

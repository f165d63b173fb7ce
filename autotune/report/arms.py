"""The configurations that a report compares: the baseline, and the winner or what leads."""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.loop.history import reading_of
from autotune.loop.study import StudyEnd
from autotune.model import BestConfiguration, Candidate, Conclusion, Phase, Ratio, Reading, Trial
from autotune.report.content import Round
from autotune.report.readings import baseline_of, measured
from autotune.scoring.score import score

BASELINE = "baseline"
WINNER = "winner"
LEADING = "leading candidate"


@dataclass(frozen=True, kw_only=True)
class Arms:
    """What is compared with what, and by which figures."""

    baseline: Candidate | None
    chosen: Candidate | None
    """None if the baseline is kept, or nothing is known yet."""
    chosen_name: str
    baseline_reading: Reading | None
    chosen_reading: Reading | None
    ratio: Ratio | None

    def name(self, candidate: Candidate) -> str:
        """How the report calls `candidate`; empty if it is neither."""
        if candidate == self.baseline:
            return BASELINE
        return self.chosen_name if candidate == self.chosen else ""


def arms_of(
    conclusion: Conclusion | None,
    trials: Sequence[Trial],
    end: StudyEnd | None,
    saved: BestConfiguration | None,
) -> Arms:
    """By what the study's own end says; without it by the answer it saved, or by the trials.

    `end` and `saved` are None if they can't be had.
    """
    baseline = baseline_of(trials)
    evidence = end.evidence if end else saved.evidence if saved else None
    chosen = _chosen(trials, end, saved)
    if chosen == baseline or conclusion in (Conclusion.KEEP_DEFAULTS, Conclusion.NO_CANDIDATE):
        chosen = None
    return Arms(
        baseline=baseline,
        chosen=chosen,
        chosen_name=WINNER if conclusion is Conclusion.IMPROVED else LEADING,
        baseline_reading=evidence.baseline if evidence else _reading(trials, baseline),
        chosen_reading=(evidence.winner if evidence else _reading(trials, chosen))
        if chosen
        else None,
        ratio=evidence.ratio if evidence and chosen else None,
    )


def rounds_of(trials: Sequence[Trial], arms: Arms) -> tuple[Round, ...]:
    """The launches of confirmation side by side, as far as all arms completed."""
    launches: dict[Candidate, list[Trial]] = {}
    for trial in trials:
        if trial.phase is Phase.CONFIRM and trial.outcome.is_final:
            launches.setdefault(trial.candidate, []).append(trial)
    shown = {c: found for c, found in launches.items() if arms.name(c)}
    count = min(map(len, shown.values()), default=0)
    rounds = []
    for index in range(count):
        rates = {arms.name(c): _rate(found[index]) for c, found in shown.items()}
        usable = {name: rate for name, rate in rates.items() if rate is not None}
        rounds.append(Round(number=index + 1, rates=usable))
    return tuple(rounds)


def _chosen(
    trials: Sequence[Trial], end: StudyEnd | None, saved: BestConfiguration | None
) -> Candidate | None:
    if end is not None:
        return end.decision.candidate
    if saved is None:
        return None
    # What did nothing is not part of the saved answer, so that no trial need be just like it.
    same = [t.candidate for t in trials if t.settings == saved.settings and t.scored]
    return same[-1] if same else None


def _reading(trials: Sequence[Trial], candidate: Candidate | None) -> Reading | None:
    if candidate is None:
        return None
    own = [t for t in trials if t.candidate == candidate and t.scored]
    return reading_of([score(m) for t in own if (m := measured(t))])


def _rate(trial: Trial) -> float | None:
    found = measured(trial)
    return score(found).samples_per_second if found and trial.scored else None

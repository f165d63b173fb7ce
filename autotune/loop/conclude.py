"""What a study says in the end: the decision, its evidence, and the configuration to save."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from autotune.loop.history import final, mean_rate, reading
from autotune.loop.plan import MIN_ROUNDS, Plan
from autotune.model import (
    BestConfiguration,
    Candidate,
    Conclusion,
    DeviceKind,
    Evidence,
    Measurement,
    Phase,
    Ratio,
    Timings,
    Trial,
)
from autotune.scoring.compare import ratios
from autotune.scoring.parity import disparity
from autotune.scoring.score import score
from autotune.space.space import Space

MIN_STABILITY = 0.5
"""A winner whose windows differ more than twofold at the tail is not steady."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The answer of a study, before it is written down."""

    conclusion: Conclusion
    candidate: Candidate
    """To be used: the winner, or the baseline."""
    reason: str
    ratio: Ratio | None = None


def decide(plan: Plan, trials: Sequence[Trial], device: DeviceKind) -> Decision:
    """The decision that the trials allow."""
    finalists = plan.finalists(trials)
    baseline_runs = any(trial.scored for trial in trials if trial.candidate == plan.baseline)
    if not baseline_runs:
        return _without_baseline(plan, trials, finalists)
    if not finalists:
        return _keep(plan, _nothing_close(plan, trials))
    rounds = _complete_rounds(plan, trials)
    if len(rounds[plan.baseline]) < MIN_ROUNDS:
        return _unconfirmed(plan, trials, finalists[0])
    return _from_rounds(plan, trials, rounds, device)


def decide_early(plan: Plan, trials: Sequence[Trial], why: str) -> Decision:
    """What is known when a study is ended before its time: the best reading, never confirmed."""
    best = [*plan.finalists(trials)[:1], plan.baseline]
    measured = [arm for arm in best if any(t.scored for t in trials if t.candidate == arm)]
    if not measured:
        return Decision(
            conclusion=Conclusion.NO_CANDIDATE,
            candidate=plan.baseline,
            reason=f"{why}; no trial had completed",
        )
    return Decision(
        conclusion=Conclusion.UNCONFIRMED,
        candidate=max(
            measured, key=lambda arm: mean_rate([t for t in trials if t.candidate == arm])
        ),
        reason=f"{why}; this looked best so far",
    )


def _from_rounds(
    plan: Plan,
    trials: Sequence[Trial],
    rounds: Mapping[Candidate, Sequence[Timings]],
    device: DeviceKind,
) -> Decision:
    rates = {
        arm: [score(measurement).samples_per_second for measurement in measurements]
        for arm, measurements in rounds.items()
    }
    baseline = rates.pop(plan.baseline)
    if not rates:
        return _keep(plan, "no finalist worked each time it was launched again")
    intervals = ratios(baseline, rates)
    ranked = sorted(intervals, key=lambda arm: -intervals[arm].estimate)
    refused: list[str] = []
    for arm in ranked:
        ratio = intervals[arm]
        if ratio.low <= 1:
            break
        why = _unfit(rounds[arm], rounds[plan.baseline], device)
        if not why:
            return Decision(
                conclusion=Conclusion.IMPROVED,
                candidate=arm,
                ratio=ratio,
                reason=f"{_percent(ratio.estimate)} samples/s over the baseline, "
                f"{_interval(ratio)}, over {len(baseline)} interleaved launches of each",
            )
        refused.append(why)
    best = intervals[ranked[0]]
    if refused:
        return _keep(plan, f"the fastest finalist was not taken: {refused[0]}", best)
    finding = (
        "the best finalist is slower"
        if best.high < 1
        else "no difference shown by the best finalist"
    )
    return _keep(plan, f"{finding}: it is at {_percent(best.estimate)}, {_interval(best)}", best)


def _unfit(arm: Sequence[Timings], baseline: Sequence[Timings], device: DeviceKind) -> str:
    steadiness = min(score(measurement).stability for measurement in arm)
    if steadiness < MIN_STABILITY:
        return f"it is not steady (stability {steadiness:.2f}, needs {MIN_STABILITY})"
    different = disparity(arm[0], baseline[0], device)
    return f"it trains differently ({different})" if different else ""


def _without_baseline(
    plan: Plan, trials: Sequence[Trial], finalists: Sequence[Candidate]
) -> Decision:
    tried = final(trials, Phase.BASELINE)
    failed = f"the baseline doesn't run here ({tried[-1].reason})" if tried else "nothing was run"
    if not finalists:
        count = len({trial.candidate for trial in trials if trial.outcome.is_final})
        return Decision(
            conclusion=Conclusion.NO_CANDIDATE,
            candidate=plan.baseline,
            reason=f"{failed}, and none of {count} candidates worked" if count else failed,
        )
    launches = _confirmations(trials)
    steady = [arm for arm in finalists if arm in launches and all(t.scored for t in launches[arm])]
    best = max(steady, key=lambda arm: mean_rate(launches[arm]), default=finalists[0])
    return Decision(
        conclusion=Conclusion.IMPROVED if steady else Conclusion.UNCONFIRMED,
        candidate=best,
        reason=f"{failed}, and this is the fastest candidate that does",
    )


def _unconfirmed(plan: Plan, trials: Sequence[Trial], best: Candidate) -> Decision:
    rate = mean_rate([t for t in trials if t.candidate == best])
    baseline = mean_rate([t for t in trials if t.candidate == plan.baseline])
    if rate <= baseline:
        return _keep(plan, "nothing in the search was faster than the baseline")
    return Decision(
        conclusion=Conclusion.UNCONFIRMED,
        candidate=best,
        reason="it looked best in the search and was not measured against the baseline again",
    )


def _nothing_close(plan: Plan, trials: Sequence[Trial]) -> str:
    searched = final(trials, Phase.SEARCH)
    best = max((mean_rate([trial]) for trial in searched), default=0.0)
    if not searched:
        return "there was no time, or no other candidate, to try"
    if not best:
        return f"none of the other {len(searched)} candidates worked"
    baseline = mean_rate(final(trials, Phase.BASELINE))
    tried = (
        "the other candidate didn't come"
        if len(searched) == 1
        else (f"none of the other {len(searched)} candidates came")
    )
    return f"{tried} close: the best reading was {_percent(best / baseline)}"


def _keep(plan: Plan, reason: str, ratio: Ratio | None = None) -> Decision:
    return Decision(
        conclusion=Conclusion.KEEP_DEFAULTS, candidate=plan.baseline, reason=reason, ratio=ratio
    )


def _confirmations(trials: Sequence[Trial]) -> dict[Candidate, list[Trial]]:
    launches: dict[Candidate, list[Trial]] = {}
    for trial in final(trials, Phase.CONFIRM):
        launches.setdefault(trial.candidate, []).append(trial)
    return launches


def _complete_rounds(plan: Plan, trials: Sequence[Trial]) -> dict[Candidate, list[Timings]]:
    """For each arm that never failed, its measurements in rounds that all such arms completed."""
    launches = _confirmations(trials)
    arms = [
        arm
        for arm in plan.arms(trials)
        if arm == plan.baseline or all(trial.scored for trial in launches.get(arm, []))
    ]
    count = min((len(launches.get(arm, [])) for arm in arms), default=0)
    usable = [index for index in range(count) if all(launches[arm][index].scored for arm in arms)]
    return {arm: [m for index in usable if (m := launches[arm][index].scored)] for arm in arms}


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _interval(ratio: Ratio) -> str:
    return (
        f"{100 * ratio.confidence:.0f} % interval {_percent(ratio.low)} to {_percent(ratio.high)}"
    )


def best_configuration(
    plan: Plan,
    trials: Sequence[Trial],
    decision: Decision,
    space: Space,
    *,
    run_id: str,
    now: datetime,
) -> BestConfiguration:
    """`decision` as the configuration to save. Not for Conclusion.NO_CANDIDATE."""
    # A confirmed answer counts the interleaved launches only.
    phases = {Phase.CONFIRM} if decision.ratio else set(Phase)
    counted = [trial for trial in trials if trial.phase in phases]
    used = [trial for trial in trials if trial.candidate == decision.candidate and trial.scored]
    last = used[-1].measurement if used else None
    versions = last.versions if isinstance(last, Measurement) else {}
    # What did nothing is not part of the answer.
    exported = plan.effects.idle(trials).reduced(decision.candidate)
    winner = None
    if decision.conclusion is not Conclusion.KEEP_DEFAULTS:
        winner = reading(t for t in counted if t.candidate == decision.candidate)
    return BestConfiguration(
        target=plan.spec.target,
        conclusion=decision.conclusion,
        settings=space.settings(exported),
        environment=space.environment(exported),
        evidence=Evidence(
            baseline=reading(t for t in counted if t.candidate == plan.baseline),
            winner=winner,
            ratio=decision.ratio if winner else None,
            device=space.facts.device,
            trials=len(trials),
            reason=decision.reason,
        ),
        versions=versions,
        run_id=run_id,
        created_at=now,
    )

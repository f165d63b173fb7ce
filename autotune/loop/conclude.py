"""What a study decides in the end, and why. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.loop.failures import hopeless
from autotune.loop.history import mean_rate
from autotune.loop.ledger import Ledger, timed
from autotune.loop.plan import (
    CONFIRMATIONS,
    LEAST_LAUNCHES,
    MARGIN,
    Plan,
    diverges,
    is_indistinct,
    is_too_noisy,
)
from autotune.loop.rounds import Rounds, complete_rounds, rates
from autotune.model import (
    Candidate,
    Conclusion,
    DeviceKind,
    Outcome,
    Ratio,
    Timings,
)
from autotune.scoring.compare import ratios
from autotune.scoring.design import MAX_ROUNDS, MIN_ROUNDS, shown_at_least
from autotune.scoring.looks import EARLY_SHARE
from autotune.scoring.parity import disparity, unchecked
from autotune.scoring.score import Score, score

LEAST_ROUNDS = 2
"""Fewer give no interval."""
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
    compared: Candidate | None = None
    """Whose ratio it is: the winner, or the finalist that came closest."""


def decide(plan: Plan, ledger: Ledger, device: DeviceKind, exhausted: str = "") -> Decision:
    """The decision that the trials allow.

    `exhausted` says, as a clause, why the search had nothing left to propose; empty if it had.
    """
    if diverges(ledger):
        return _diverges(plan, ledger)
    if failure := hopeless(ledger.trials):
        return _none(plan, f"nothing that was tried works: {failure}")
    if not ledger.has_measured(plan.baseline):
        return _without_baseline(plan, ledger)
    if is_too_noisy(ledger):
        return _keep(plan, _too_noisy(ledger))
    finalists = plan.finalists(ledger)
    if not (ledger.searched or exhausted) and plan.spec.budget_s is not None:
        return _untried(plan, ledger)
    if ledger.refuted and not ledger.confirmations:
        return _refuted(plan, ledger, device)
    if not finalists:
        return _keep(plan, _nothing_close(plan, ledger, exhausted))
    rounds = plan.complete_rounds(ledger)
    if len(rounds[plan.baseline]) < LEAST_ROUNDS:
        return _unconfirmed(plan, ledger, finalists[0])
    decision = _from_rounds(plan, rounds, plan.spent(ledger), device)
    if decision.conclusion is Conclusion.KEEP_DEFAULTS and ledger.refuted:
        decision = _best_of([decision, _refuted(plan, ledger, device)])
    if decision.conclusion is Conclusion.KEEP_DEFAULTS and is_indistinct(ledger):
        decision = replace(decision, reason=f"{decision.reason}; {_noise(ledger)}")
    if len(rounds[plan.baseline]) < MIN_ROUNDS and decision.conclusion is Conclusion.IMPROVED:
        few = f"with {len(rounds[plan.baseline])} of the {MIN_ROUNDS} rounds that confirm"
        return replace(
            decision, conclusion=Conclusion.UNCONFIRMED, reason=f"{decision.reason}, {few}"
        )
    return decision


def _refuted(plan: Plan, ledger: Ledger, device: DeviceKind) -> Decision:
    """What confirmations that showed no gain leave possible."""
    return _best_of(
        [
            _from_rounds(
                plan,
                complete_rounds(list(launches), plan.baseline, launches),
                # Most of them ended early.
                EARLY_SHARE * spent,
                device,
            )
            for launches, spent in zip(ledger.refuted, CONFIRMATIONS, strict=False)
        ]
    )


def _best_of(decisions: Sequence[Decision]) -> Decision:
    """The one with the highest ratio: each has its share of the error, so any may be reported."""
    return max(decisions, key=lambda one: one.ratio.estimate if one.ratio else 0.0)


def is_left_open(plan: Plan, ledger: Ledger, decision: Decision, exhausted: str = "") -> bool:
    """Whether `decision` is what it is for want of time in this invocation, not in the study."""
    if not plan.is_cut_short or diverges(ledger) or is_too_noisy(ledger):
        return False
    if decision.conclusion is Conclusion.UNCONFIRMED:
        return True
    if decision.conclusion is Conclusion.IMPROVED or decision.ratio is not None:
        return False
    return not (plan.has_searched_all(ledger, exhausted) or hopeless(ledger.trials))


def decide_early(plan: Plan, ledger: Ledger, why: str) -> Decision:
    """What is known when a study is ended before its time: the best reading, never confirmed."""
    if ledger.leading is None:
        return _none(plan, f"{why}; no trial had completed")
    return Decision(
        conclusion=Conclusion.UNCONFIRMED,
        candidate=ledger.leading,
        reason=f"{why}; this looked best so far",
    )


def _from_rounds(plan: Plan, rounds: Rounds, spent: float, device: DeviceKind) -> Decision:
    finalists = rates(rounds)
    baseline = finalists.pop(plan.baseline)
    if not finalists:
        return _keep(plan, "no finalist worked each time it was launched again")
    intervals = ratios(baseline, finalists, share=spent)
    shown = [arm for arm in finalists if intervals[arm].low > 1]
    faults = {arm: unfit(rounds[arm], rounds[plan.baseline], device) for arm in shown}
    fit = [arm for arm in shown if not faults[arm]]
    if fit:
        winner = fit[0]
        ratio = intervals[winner]
        return Decision(
            conclusion=Conclusion.IMPROVED,
            candidate=winner,
            ratio=ratio,
            compared=winner,
            reason=f"{_percent(ratio.estimate)} samples/s over the baseline, "
            f"{_interval(ratio)}, over {len(baseline)} interleaved launches of each"
            f"{caveat(rounds[winner], rounds[plan.baseline], device)}",
        )
    best = max(intervals, key=lambda arm: intervals[arm].estimate)
    ratio = intervals[best]
    if shown:
        why = f"the fastest finalist was not taken: {faults[shown[0]]}"
        return _keep(plan, why, intervals[shown[0]], shown[0])
    finding = (
        "the best finalist is slower"
        if ratio.high < 1
        else "no difference shown by the best finalist"
    )
    why = f"{finding}: it is at {_percent(ratio.estimate)}, {_interval(ratio)}"
    return _keep(plan, why, ratio, best)


def unfit(arm: Sequence[Timings], baseline: Sequence[Timings], device: DeviceKind) -> str:
    """Why a faster arm can't be taken, as a clause; empty if it can."""
    steadiness = min(score(measurement).stability for measurement in arm)
    if steadiness < MIN_STABILITY:
        return f"it is not steady (stability {steadiness:.2f}, needs {MIN_STABILITY})"
    if unchecked(arm[0], baseline, device):
        return ""
    different = disparity(arm[0], baseline[0], device)
    return f"it trains differently ({different})" if different else ""


def caveat(arm: Sequence[Timings], baseline: Sequence[Timings], device: DeviceKind) -> str:
    """What a claim for `arm` has to say of what wasn't compared; empty if all was."""
    why = unchecked(arm[0], baseline, device)
    return f"; whether it trains the same is not checked: {why}" if why else ""


def _diverges(plan: Plan, ledger: Ledger) -> Decision:
    failed = next(t for t in ledger.baselines if t.outcome is Outcome.DIVERGED)
    return _none(
        plan,
        f"the baseline itself doesn't train ({failed.reason}), so no configuration can be compared "
        f"with it; {failed.outcome.treatment.advice} first",
    )


def _untried(plan: Plan, ledger: Ledger) -> Decision:
    # What the baseline took here it would take again.
    launches = LEAST_LAUNCHES - len(ledger.baselines)
    least_s = ledger.elapsed_s + launches * MARGIN * ledger.launch_s()
    return Decision(
        conclusion=Conclusion.UNCONFIRMED,
        candidate=plan.baseline,
        reason=f"there was no time to try anything else: a launch takes {ledger.launch_s():.1f} s "
        f"here, so one candidate and its confirmation need a budget of about {least_s:.0f} s",
    )


def _too_noisy(ledger: Ledger) -> str:
    return f"{len(ledger.baselines)} {_noise(ledger, of=' of the baseline')}"


def _noise(ledger: Ledger, of: str = "") -> str:
    least = math.expm1(shown_at_least(ledger.noise.launch, MAX_ROUNDS))
    return (
        f"launches{of} differ so much ({100 * ledger.noise.launch:.0f} % from launch to launch) "
        f"that no gain below {100 * least:.0f} % could be shown; end what else runs on this "
        "machine, look for throttling, and run it again"
    )


def _without_baseline(plan: Plan, ledger: Ledger) -> Decision:
    tried = ledger.baselines
    failed = f"the baseline doesn't run here ({tried[-1].reason})" if tried else "nothing was run"
    finalists = plan.finalists(ledger)
    if not finalists:
        count = len({trial.candidate for trial in ledger.trials if trial.outcome.is_final})
        if tried:
            failed = f"{failed}, and none of {count} candidates worked"
            failed = f"{failed}; {tried[-1].outcome.treatment.advice}"
        return _none(plan, failed)
    launches = ledger.confirmations
    steady = [arm for arm in finalists if arm in launches and all(t.scored for t in launches[arm])]
    best = max(steady, key=lambda arm: mean_rate(launches[arm]), default=finalists[0])
    return Decision(
        conclusion=Conclusion.IMPROVED if steady else Conclusion.UNCONFIRMED,
        candidate=best,
        reason=f"{failed}, and this is the fastest candidate that does",
    )


def _unconfirmed(plan: Plan, ledger: Ledger, best: Candidate) -> Decision:
    if ledger.log_rate(best) <= ledger.log_rate(plan.baseline):
        return _keep(plan, "nothing in the search was faster than the baseline")
    return Decision(
        conclusion=Conclusion.UNCONFIRMED,
        candidate=best,
        reason="it looked best in the search and was not measured against the baseline again",
    )


def _nothing_close(plan: Plan, ledger: Ledger, exhausted: str) -> str:
    count = len(ledger.searched)
    if not count:
        why = exhausted or "no time was left"
        return f"nothing else was launched: {why}"
    alone = count == 1
    tried = "the other candidate" if alone else f"none of the other {count} candidates"
    readings = [score(m) for t in ledger.searched if (m := timed(t))]
    if not readings:
        return f"{tried} {'did not work' if alone else 'worked'}"
    verb = "did not come" if alone else "came"
    return f"{tried} {verb} close: {_nearest(readings, plan.baseline, ledger)}"


def _nearest(readings: Sequence[Score], baseline: Candidate, ledger: Ledger) -> str:
    """The best of them; and the fastest, if a gain of it was too unsteady to count."""
    rate, value = math.exp(ledger.log_rate(baseline)), math.exp(ledger.log_score(baseline))
    fastest = max(readings, key=lambda reading: reading.samples_per_second)
    by_score = max(reading.value for reading in readings) / value
    by_rate = fastest.samples_per_second / rate
    told = f"the best score was at {_percent(by_score)}"
    if by_rate <= max(1.0, by_score):
        return told
    return (
        f"{told}; the fastest reading was at {_percent(by_rate)}, but with a stability of "
        f"{fastest.stability:.2f} where the defaults have {value / rate:.2f}"
    )


def _none(plan: Plan, reason: str) -> Decision:
    return Decision(conclusion=Conclusion.NO_CANDIDATE, candidate=plan.baseline, reason=reason)


def _keep(
    plan: Plan, reason: str, ratio: Ratio | None = None, compared: Candidate | None = None
) -> Decision:
    return Decision(
        conclusion=Conclusion.KEEP_DEFAULTS,
        candidate=plan.baseline,
        reason=reason,
        ratio=ratio,
        compared=compared,
    )


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _interval(ratio: Ratio) -> str:
    return (
        f"{100 * ratio.confidence:.0f} % interval {_percent(ratio.low)} to {_percent(ratio.high)}"
    )

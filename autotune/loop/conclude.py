"""What a study decides in the end, and why. Pure."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from autotune.loop.confirmed import best_of, by_confirmations
from autotune.loop.decision import Decision, keep_defaults, percent
from autotune.loop.failures import hopeless
from autotune.loop.history import mean_rate
from autotune.loop.ledger import Ledger, timed
from autotune.loop.plan import (
    LEAST_LAUNCHES,
    MARGIN,
    Plan,
    diverges,
    is_indistinct,
    is_too_noisy,
)
from autotune.model import Candidate, Conclusion, DeviceKind, Outcome
from autotune.scoring.design import MAX_ROUNDS, MIN_ROUNDS, shown_at_least
from autotune.scoring.score import Score, score


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
        return keep_defaults(plan.baseline, _too_noisy(ledger))
    finalists = plan.finalists(ledger)
    if not (ledger.searched or exhausted) and plan.spec.budget_s is not None:
        return _untried(plan, ledger)
    decisions = by_confirmations(plan, ledger, device)
    if not decisions and finalists:
        return _unconfirmed(plan, ledger, finalists[0])
    if not decisions:
        return keep_defaults(plan.baseline, _nothing_close(plan, ledger, exhausted))
    decision = best_of(decisions)
    if decision.conclusion is Conclusion.KEEP_DEFAULTS and is_indistinct(ledger):
        decision = replace(decision, reason=f"{decision.reason}; {_noise(ledger)}")
    if decision.ratio is not None and decision.rounds < MIN_ROUNDS:
        few = f"with {decision.rounds} of the {MIN_ROUNDS} rounds that confirm"
        return replace(
            decision, conclusion=Conclusion.UNCONFIRMED, reason=f"{decision.reason}, {few}"
        )
    return decision


def is_left_open(plan: Plan, ledger: Ledger, decision: Decision, exhausted: str = "") -> bool:
    """Whether `decision` is what it is for want of time in this invocation, not in the study."""
    if not plan.is_cut_short or diverges(ledger) or is_too_noisy(ledger):
        return False
    if decision.conclusion is Conclusion.UNCONFIRMED:
        return True
    if ledger.confirmations and plan.rounds_done(ledger) < MIN_ROUNDS:
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
        return keep_defaults(plan.baseline, "nothing in the search was faster than the baseline")
    launches = ledger.confirmations.get(plan.baseline, [])
    completed = sum(trial.scored is not None for trial in launches)
    if completed < len(launches):
        why = f"of {len(launches)} launches to confirm it the baseline completed {completed}"
    elif done := plan.rounds_done(ledger):
        why = f"there was time for {done} of the {MIN_ROUNDS} rounds that confirm"
    else:
        why = "was not measured against the baseline again"
    joint = " and " if why.startswith("was") else ", but "
    return Decision(
        conclusion=Conclusion.UNCONFIRMED,
        candidate=best,
        reason=f"it looked best in the search{joint}{why}",
    )


def _nothing_close(plan: Plan, ledger: Ledger, exhausted: str) -> str:
    count = len(ledger.searched)
    if not count:
        why = exhausted or "no time was left"
        return f"nothing else was launched: {why}"
    alone = count == 1
    tried = "the other candidate" if alone else f"none of the other {count} candidates"
    readings = {t.number: score(m) for t in ledger.searched if (m := timed(t))}
    if not readings:
        return f"{tried} {'did not work' if alone else 'worked'}"
    verb = "did not come" if alone else "came"
    failed = {t.number for t in ledger.searched if ledger.arms[t.candidate].failed}
    unproven = [one for number, one in readings.items() if number in failed]
    return f"{tried} {verb} close: {_nearest(readings.values(), unproven, plan.baseline, ledger)}"


def _nearest(
    readings: Collection[Score], unproven: Sequence[Score], baseline: Candidate, ledger: Ledger
) -> str:
    """The best of them, and what was wrong with one that read better than the baseline.

    `unproven` are those whose candidates failed when they were launched again.
    """
    rate, value = math.exp(ledger.log_rate(baseline)), math.exp(ledger.log_score(baseline))
    best = max(readings, key=lambda reading: reading.value)
    fastest = max(readings, key=lambda reading: reading.samples_per_second)
    by_score, by_rate = best.value / value, fastest.samples_per_second / rate
    told = f"the best score was at {percent(by_score)}"
    if by_score > 1 and best in unproven:
        return f"{told}, of a candidate that failed when it was launched again"
    if by_rate <= max(1.0, by_score):
        return told
    return (
        f"{told}; the fastest reading was at {percent(by_rate)}, but with a stability of "
        f"{fastest.stability:.2f} where the defaults have {value / rate:.2f}"
    )


def _none(plan: Plan, reason: str) -> Decision:
    return Decision(conclusion=Conclusion.NO_CANDIDATE, candidate=plan.baseline, reason=reason)

"""What confirmations say: the only readings that an answer counts."""

from collections.abc import Sequence
from dataclasses import replace

from autotune.loop.decision import Decision, Launches, keep_defaults, percent
from autotune.loop.ledger import Ledger
from autotune.loop.plan import CONFIRMATIONS, Plan
from autotune.loop.rounds import Rounds, complete_rounds, is_futile, rates
from autotune.model import Candidate, Conclusion, DeviceKind, Ratio, Timings
from autotune.scoring.compare import ratios
from autotune.scoring.design import MIN_ROUNDS
from autotune.scoring.looks import EARLY_SHARE
from autotune.scoring.parity import disparity, unchecked
from autotune.scoring.score import score

LEAST_ROUNDS = 2
"""Fewer give no interval."""
MIN_STABILITY = 0.5
"""A winner whose windows differ more than twofold at the tail is not steady."""


def by_confirmations(plan: Plan, ledger: Ledger, device: DeviceKind) -> list[Decision]:
    """What each confirmation says by itself, the latest first, if it has rounds enough to."""
    decisions: list[Decision] = []
    if ledger.confirmations:
        rounds = plan.complete_rounds(ledger)
        latest = _by_confirmation(plan, ledger.confirmations, rounds, plan.spent(ledger), device)
        decisions += [_with_what_was_missing(plan, ledger, one) for one in latest]
    for launches, spent in reversed(list(zip(ledger.refuted, CONFIRMATIONS, strict=False))):
        rounds = complete_rounds(list(launches), plan.baseline, launches)
        # Most of those that showed no gain ended early.
        decisions += _by_confirmation(plan, launches, rounds, EARLY_SHARE * spent, device)
    return decisions


def _by_confirmation(
    plan: Plan, launches: Launches, rounds: Rounds, spent: float, device: DeviceKind
) -> list[Decision]:
    count = len(rounds[plan.baseline])
    has_finalist = len(rounds) > 1
    if has_finalist and count < LEAST_ROUNDS:
        return []
    decision = _from_rounds(plan, rounds, spent, device)
    return [replace(decision, confirmation=launches, rounds=count)]


def _with_what_was_missing(plan: Plan, ledger: Ledger, decision: Decision) -> Decision:
    """It says so if time was what ended the rounds."""
    done, planned = plan.rounds_done(ledger), plan.rounds(ledger)
    is_kept = decision.conclusion is Conclusion.KEEP_DEFAULTS and decision.ratio is not None
    if not (is_kept and MIN_ROUNDS <= done < planned):
        return decision
    if is_futile(plan.complete_rounds(ledger), plan.baseline, done, planned):
        return decision
    more = f"there was no time for {planned - done} more rounds, which might have told more"
    return replace(decision, reason=f"{decision.reason}; {more}")


def best_of(decisions: Sequence[Decision]) -> Decision:
    """The one that shows a gain, else what comes closest to one.

    Of several that show none of the same candidate the longest counts, not the luckiest. Those of
    fewer rounds than confirm anything count if there are no others.
    """
    whole = [one for one in decisions if one.rounds >= MIN_ROUNDS] or decisions
    if shown := [one for one in whole if one.conclusion is Conclusion.IMPROVED]:
        return shown[0]
    longest: dict[Candidate | None, Decision] = {}
    for one in sorted(whole, key=lambda one: one.rounds):
        longest[one.compared] = one
    return max(longest.values(), key=lambda one: one.ratio.estimate if one.ratio else 0.0)


def _from_rounds(plan: Plan, rounds: Rounds, spent: float, device: DeviceKind) -> Decision:
    finalists = rates(rounds)
    baseline = finalists.pop(plan.baseline)
    if not finalists:
        return keep_defaults(plan.baseline, "no finalist worked each time it was launched again")
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
            reason=f"{percent(ratio.estimate)} samples/s over the baseline, "
            f"{_interval(ratio)}, over {len(baseline)} interleaved launches of each"
            f"{caveat(rounds[winner], rounds[plan.baseline], device)}",
        )
    best = max(intervals, key=lambda arm: intervals[arm].estimate)
    ratio = intervals[best]
    if shown:
        why = f"the fastest finalist was not taken: {faults[shown[0]]}"
        return keep_defaults(plan.baseline, why, intervals[shown[0]], shown[0])
    finding = (
        "the best finalist is slower"
        if ratio.high < 1
        else "no difference shown by the best finalist"
    )
    why = (
        f"{finding}: it is at {percent(ratio.estimate)}, {_interval(ratio)}, "
        f"over {len(baseline)} interleaved launches of each"
    )
    return keep_defaults(plan.baseline, why, ratio, best)


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


def _interval(ratio: Ratio) -> str:
    return f"{100 * ratio.confidence:.0f} % interval {percent(ratio.low)} to {percent(ratio.high)}"

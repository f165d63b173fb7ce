"""What a study didn't launch, and how its trials failed."""

from collections import Counter
from collections.abc import Mapping, Sequence

from autotune.loop.study import StudyEnd
from autotune.model import Outcome, Trial
from autotune.report.content import Failures, Skipped, SkippedGroup
from autotune.space.space import Space
from autotune.space.view import view

MOST_GROUPS = 50


def skipped_of(
    trials: Sequence[Trial], end: StudyEnd | None, space: Space | None, unknown: str
) -> Skipped:
    """`unknown` says why there is neither `end` nor `space`."""
    stopped = sum(trial.outcome is Outcome.PRUNED for trial in trials)
    if end is None or space is None:
        return Skipped(unknown=unknown, stopped=stopped)
    memory = end.left_out.cannot.keys() | end.left_out.near.keys()
    others = Counter(why for candidate, why in end.skipped.items() if candidate not in memory)
    return Skipped(
        candidates=tuple(
            SkippedGroup(candidates=count, reason=reason)
            for reason, count in others.most_common(MOST_GROUPS)
        ),
        memory=end.left_out.describe(),
        no_effect=dict(end.no_effect),
        search_ended=end.search_ended,
        stopped=stopped,
        knobs=_left_out(space, trials),
    )


def _left_out(space: Space, trials: Sequence[Trial]) -> Mapping[str, tuple[str, ...]]:
    """The knobs that no trial differed in, by the reason."""
    groups: dict[str, list[str]] = {}
    for knob in space.knobs:
        seen = view(space, knob)
        why = _why(space, seen.reason, seen.held_by, len(seen.values))
        if seen.searched:
            launched = {
                trial.candidate[knob.name] for trial in trials if knob.name in trial.candidate
            }
            if len(launched) > 1:
                continue
            why = "not reached: the search ended before it launched another value"
        groups.setdefault(why, []).append(knob.name)
    return {reason: tuple(names) for reason, names in groups.items()}


def _why(space: Space, reason: str, held_by: str, values: int) -> str:
    if reason:
        return reason
    if held_by:
        return f"held by {held_by}"
    if values < 2:
        return "has one value only here"
    return "wasn't named with --only" if space.only else "is searched with --space full only"


def failures_of(trials: Sequence[Trial]) -> tuple[Failures, ...]:
    """The trials that neither completed nor lost, by outcome; the most frequent first."""
    groups: dict[Outcome, list[Trial]] = {}
    for trial in trials:
        if not trial.outcome.has_worked:
            groups.setdefault(trial.outcome, []).append(trial)
    found = [
        Failures(
            outcome=outcome.value,
            trials=tuple(trial.number for trial in failed),
            blamed="candidate" if outcome.is_infeasible else "machine",
            reason=failed[-1].reason,
            advice=outcome.treatment.advice,
        )
        for outcome, failed in groups.items()
    ]
    return tuple(sorted(found, key=lambda failures: -len(failures.trials)))

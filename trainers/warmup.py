"""When a trial's steps have become what they will be: a rule over the times of its first steps.

Georges, Buytaert and Eeckhout, "Statistically rigorous Java performance evaluation" (OOPSLA 2007),
take the last few iterations and call them steady once they vary little. On a shared machine steps
vary by 17 % for good and that never comes, so that "no longer getting faster" is enough as well.
"""

from collections.abc import Sequence
from statistics import median

from autotune.model import MeasurementPlan

RECENT = 3
"""Steps that are looked at together. In simulations, 2 ended too early and 4 took 2 steps more."""
TOLERANCE = 0.02
"""Relative: Georges et al. use 0.01 and 0.02."""


def is_over(step_s: Sequence[float], plan: MeasurementPlan, steady_from: int = 0) -> bool:
    """Whether the warm-up ends after steps that took `step_s`.

    Steps before `steady_from` are known not to be steady. The first one doesn't count for the limit
    in seconds: it compiles, which may take a minute.
    """
    if len(step_s) < plan.min_warmup_steps:
        return False
    if len(step_s) >= plan.max_warmup_steps or sum(step_s[1:]) >= plan.max_warmup_s:
        return True
    return has_settled(step_s[steady_from:])


def has_settled(step_s: Sequence[float]) -> bool:
    """The last three steps agree, or are no faster than the three before; the first never counts.

    A slow one among three changes nothing: medians are compared. Steps that get slower have
    settled; that is a drift and not a warm-up.
    """
    later = step_s[1:]
    recent, before = later[-RECENT:], later[-2 * RECENT : -RECENT]
    if len(recent) < RECENT:
        return False
    if max(recent) - min(recent) <= TOLERANCE * median(recent):
        return True
    return len(before) == RECENT and median(recent) >= (1 - TOLERANCE) * median(before)


def settled_step_s(step_s: Sequence[float]) -> float:
    """What a step takes at the end of a warm-up of one step or more."""
    return median(step_s[-RECENT:])

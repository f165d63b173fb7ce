"""How long the trials of a study may take, by what is known of its baseline. Seconds."""

from autotune.loop.ledger import Ledger
from autotune.model import Measurement, TrainingSettings

FIRST_LIMIT_S = 600.0
"""A trial's time limit while nothing is known of its speed."""
LIMIT_FACTOR = 10.0
LEAST_LIMIT_S = 60.0
FIRST_STEP_S = 300.0
"""For the first step, while nothing is known of it: it may read a data set and draw billions of
weights."""
BUILD_FACTOR = 3.0
SLACK_S = 20.0
COMPILE_S = 300.0
"""More for a first step that compiles."""
LONGEST_COLLECTIVE_S = 60.0
_MARGIN_S = 10.0
"""Of a collective's timeout beyond the limit of a step, so that the launcher knows of a hang first
and can still ask the ranks what they are at."""


def time_limit_s(ledger: Ledger, remaining_s: float | None) -> float:
    """Ten times what the slowest baseline launch took: worse candidates than that can't win.

    No longer than what is left of the study's budget, `remaining_s`, but a minute in any case.
    """
    seconds = [trial.seconds for trial in ledger.baselines if trial.scored]
    limit_s = max(LEAST_LIMIT_S, LIMIT_FACTOR * max(seconds)) if seconds else FIRST_LIMIT_S
    return limit_s if remaining_s is None else min(limit_s, max(LEAST_LIMIT_S, remaining_s))


def first_step_limit_s(ledger: Ledger, settings: TrainingSettings) -> float:
    """Three times what building and warming up the slowest baseline took, and 20 s.

    It counts from when the ranks have met.
    """
    measured = [trial.scored for trial in ledger.baselines]
    took = [one.build_s + one.warmup_s for one in measured if isinstance(one, Measurement)]
    limit_s = SLACK_S + BUILD_FACTOR * max(took) if took else FIRST_STEP_S
    return limit_s + (COMPILE_S if settings.compile else 0.0)


def collective_timeout_s(first_step_s: float) -> float:
    """How long ranks wait for each other in a collective, given the first step's limit.

    Short: whoever waits longer for another rank than for anything else waits in vain.
    """
    return min(LONGEST_COLLECTIVE_S, first_step_s + _MARGIN_S)

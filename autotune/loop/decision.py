"""The answer of a study, before it is written down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotune.model import Candidate, Conclusion, Ratio, Trial

Launches = Mapping[Candidate, Sequence[Trial]]
"""Of each arm of a confirmation, in their order."""


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
    confirmation: Launches = field(default_factory=dict, compare=False, repr=False)
    """The launches that the ratio is from, of each arm."""
    rounds: int = 0
    """How many of its rounds are complete."""


def keep_defaults(
    baseline: Candidate, reason: str, ratio: Ratio | None = None, compared: Candidate | None = None
) -> Decision:
    """The baseline is the answer."""
    return Decision(
        conclusion=Conclusion.KEEP_DEFAULTS,
        candidate=baseline,
        reason=reason,
        ratio=ratio,
        compared=compared,
    )


def percent(ratio: float) -> str:
    """How far above 1, for a person."""
    return f"{100 * (ratio - 1):+.1f} %"

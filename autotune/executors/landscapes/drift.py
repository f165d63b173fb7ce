"""How a machine's speed changes while a study runs."""

import math
from dataclasses import dataclass
from enum import StrEnum

from autotune.errors import FieldError

_HOUR_S = 3600.0


class DriftKind(StrEnum):
    """The form of a drift."""

    NONE = "none"
    LINEAR = "linear"
    """`percent` an hour, compounded."""
    STEP = "step"
    """`percent` from `after_s` on."""
    SINE = "sine"
    """`percent` up and down within `period_s`."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A factor on the speed of all candidates alike, by the study's time."""

    kind: DriftKind = DriftKind.NONE
    percent: float = 0.0
    after_s: float = 0.0
    period_s: float = _HOUR_S

    def __post_init__(self) -> None:
        if not -100 < self.percent <= 1000:
            raise FieldError("percent", self.percent, "has to be above -100 and at most 1000")
        if self.after_s < 0:
            raise FieldError("after_s", self.after_s, "has to be 0 or more")
        if not 0 < self.period_s < math.inf:
            raise FieldError("period_s", self.period_s, "has to be positive and finite")

    def factor(self, time_s: float) -> float:
        """Speed at `time_s` after the study's start, over that without drift."""
        scale = math.log1p(self.percent / 100)
        if self.kind is DriftKind.LINEAR:
            return math.exp(scale * time_s / _HOUR_S)
        if self.kind is DriftKind.STEP:
            return math.exp(scale) if time_s >= self.after_s else 1.0
        if self.kind is DriftKind.SINE:
            return math.exp(scale * math.sin(2 * math.pi * time_s / self.period_s))
        return 1.0

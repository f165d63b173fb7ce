"""How far measurements are off the true speed."""

import math
from dataclasses import dataclass
from random import Random

from autotune.errors import FieldError
from autotune.executors.landscapes.chance import MOST_PERCENT, sigma, spread


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviations in percent; all three are log-normal with median 1 and independent."""

    launch_percent: float = 0.0
    """From launch to launch: one factor for all that a launch measures."""
    window_percent: float = 0.0
    """From window to window, whatever their length."""
    step_percent: float = 0.0
    """From step to step; a window of n steps has it over the root of n."""

    def __post_init__(self) -> None:
        for name in ("launch_percent", "window_percent", "step_percent"):
            value = getattr(self, name)
            if not 0 <= value <= MOST_PERCENT:
                raise FieldError(name, value, f"has to be from 0 to {MOST_PERCENT:g}")

    def launch(self, random: Random) -> float:
        """A launch's factor."""
        return spread(random, self.launch_percent)

    def window(self, random: Random, steps: int) -> float:
        """A window's factor, beside its launch's."""
        deviation = math.hypot(
            sigma(self.window_percent), sigma(self.step_percent) / math.sqrt(steps)
        )
        return math.exp(random.gauss(0.0, 1.0) * deviation)

"""A landscape: all that a simulated trial's course depends on."""

import math
from dataclasses import dataclass, field
from typing import Protocol

from autotune.errors import FieldError
from autotune.executors.landscapes.drift import Drift
from autotune.executors.landscapes.effects import Effects, Rule, combined
from autotune.executors.landscapes.failures import Failure, drawn
from autotune.executors.landscapes.layout import Layout
from autotune.executors.landscapes.noise import Noise
from autotune.model import Outcome

_FIRST_LOSS = 5.5
_FIRST_NORM = 2.0
_LEARNING = 0.99
"""Of one step: what a loss is multiplied by."""
SHOWN_STEPS = 8
"""Optimizer steps whose losses a simulated trial gives: more than parity looks at."""


class Speed(Protocol):
    """Where true speeds come from: a formula or a table."""

    def factor(self, layout: Layout) -> float:
        """The layout's speed in units of the landscape's samples/s."""

    def failure(self, layout: Layout) -> Outcome | None:
        """How all launches of the layout end, if none of them has a speed."""


@dataclass(frozen=True, kw_only=True)
class Landscape:
    """A machine that isn't there, with one workload on it."""

    name: str
    samples_per_second: float = 1000.0
    """True speed of the framework's defaults, over all ranks."""
    speed: Speed = field(default_factory=Effects)
    noise: Noise = field(default_factory=Noise)
    drift: Drift = field(default_factory=Drift)
    failures: tuple[Failure, ...] = ()
    """The first that fits counts."""
    losses: tuple[Rule, ...] = ()
    """Layouts that train differently, and what their losses and norms are higher by."""
    launch_s: float = 0.25
    """From a trial's start to its first step."""
    memory_percent: float = 100.0
    """Peak memory that trials really have, of what is predicted for them."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.samples_per_second < math.inf:
            raise FieldError(
                "samples_per_second", self.samples_per_second, "has to be positive and finite"
            )
        if not 0 <= self.launch_s < math.inf:
            raise FieldError("launch_s", self.launch_s, "has to be 0 or more and finite")
        if not 0 <= self.memory_percent <= 10_000:
            raise FieldError("memory_percent", self.memory_percent, "has to be from 0 to 10000")

    def rate(self, layout: Layout) -> float:
        """True samples/s of a layout, before drift and noise."""
        return self.samples_per_second * self.speed.factor(layout)

    def failure(self, layout: Layout, launch: str) -> Failure | None:
        """How the launch called `launch` fails; None if it goes well."""
        outcome = self.speed.failure(layout)
        if outcome is not None:
            return Failure(outcome=outcome)
        return drawn(self.failures, layout, landscape_seed=self.seed, launch=launch)

    def training(self, layout: Layout) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Losses and gradient norms of the first steps; the same for layouts that train alike."""
        factor = combined(self.losses, layout)
        steps = [factor * _LEARNING**step for step in range(SHOWN_STEPS)]
        return tuple(_FIRST_LOSS * s for s in steps), tuple(_FIRST_NORM * s for s in steps)

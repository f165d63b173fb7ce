"""An executor whose trials are formulas, for tests of what is above it."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event

from autotune.executors.base import Executor, Launch, LaunchEnd, OnWindow
from autotune.model import KnobValue, Machine, Measurement, Outcome, TrainingSettings, Window
from autotune.model.protocol import Verdict

MACHINE = Machine(
    instance="fake-2c", gpus=(), cpu="fake", cores=2, memory_bytes=2**30, numa_nodes=1
)

Speed = Callable[[TrainingSettings], float | Outcome]
"""True samples/s of a layout, or how its trials end instead."""


class FormulaExecutor(Executor):
    """The n-th launch takes `launch_s(n)` of a clock of its own, and `prepared_s(n)` before.

    Noise is seeded.
    """

    def __init__(
        self,
        speed: Speed,
        *,
        noise: float = 0.01,
        seed: int = 0,
        launch_s: Callable[[int], float] = lambda _: 1.0,
        prepared_s: Callable[[int], float] = lambda _: 0.0,
        effective: Callable[[Launch], dict[str, KnobValue]] = lambda _: {},
        stall: Callable[[TrainingSettings], float] = lambda _: 1.0,
    ) -> None:
        """The third window of a launch takes `stall` times as long as the others."""
        self._stall = stall
        self._speed = speed
        self._noise = noise
        self._rng = random.Random(seed)
        self._launch_s = launch_s
        self._prepared_s = prepared_s
        self._effective = effective
        self.now = 0.0
        self.launches: list[Launch] = []

    def machine(self) -> Machine:
        return MACHINE

    def clock(self) -> float:
        return self.now

    def run(self, launch: Launch, on_window: OnWindow, cancel: Event) -> LaunchEnd:
        number = len(self.launches)
        self.launches.append(launch)
        self.now += self._prepared_s(number) + self._launch_s(number)
        end = self._end(launch, on_window, cancel)
        return replace(end, prepared_s=self._prepared_s(number))

    def _end(self, launch: Launch, on_window: OnWindow, cancel: Event) -> LaunchEnd:
        speed = self._speed(launch.spec.settings)
        if isinstance(speed, Outcome):
            return LaunchEnd(outcome=speed, reason="as the test says", log_path=str(Path("x")))
        rate = speed * self._rng.lognormvariate(0, self._noise)
        windows: list[Window] = []
        verdict = Verdict.GO
        for index in range(launch.spec.plan.windows):
            seconds = 320 / rate * (self._stall(launch.spec.settings) if index == 2 else 1.0)
            windows.append(Window(index=index, steps=10, samples=320, seconds=seconds))
            verdict = on_window(windows[-1])
            if cancel.is_set():
                return LaunchEnd(outcome=Outcome.CANCELLED, reason="the test cancelled it")
            if verdict is not Verdict.GO:
                break
        return LaunchEnd(
            outcome=Outcome.PRUNED if verdict is Verdict.STOP else Outcome.COMPLETED,
            measurement=measurement(windows, self._effective(launch)),
        )


def measurement(windows: list[Window], effective: dict[str, KnobValue]) -> Measurement:
    return Measurement(
        windows=tuple(windows),
        warmup_steps=3,
        settled=True,
        communication_share=None,
        build_s=0.1,
        warmup_s=0.1,
        losses=(2.0, 1.9, 1.8),
        gradient_norms=(1.0, 1.0, 1.0),
        peak_memory_bytes=(1, 1),
        allocator_retries=0,
        parameters=1,
        effective=effective,
        versions={"torch": "2.13.0"},
    )

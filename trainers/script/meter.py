"""Times a script's optimizer steps: one by one until they have settled, then in windows.

As `measure` does for workloads, but called by the script's steps and not calling them.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from autotune.model import MeasurementPlan, Window
from autotune.model.protocol import FailureKind, Progress, Verdict, WindowDone
from autotune.trainers import process, warmup
from autotune.trainers.channel import Channel
from autotune.trainers.failures import RankError
from autotune.trainers.measure import Recording
from autotune.trainers.script.counts import Counts
from autotune.trainers.script.edges import Edges, Facts

Check = Callable[[int], None]
"""Judges the samples that all ranks read for a step; raises RankError."""


@dataclass(kw_only=True)
class Meter:
    """Told of each optimizer step of this rank. Rank 0 decides how it goes on."""

    plan: MeasurementPlan
    edges: Edges
    channel: Channel
    counts: Counts
    samples: int
    """Of a step, over all ranks."""
    check: Check
    recording: Recording = field(default_factory=Recording)
    facts: list[Facts] = field(default_factory=list)
    """Of all ranks at the last edge, on rank 0."""
    read: int = 0
    """Samples that all ranks read for a step, as they are counted."""
    is_over: bool = False
    first_step_s: float = 0.0
    """When the first step was done, by `process.now_s`."""
    _left: int = 1
    _window: int = 0
    """Steps of the windows; 0 during the warm-up."""
    _step_s: list[float] = field(default_factory=list)
    _reserved: int = 0
    _last_growth: int = 0
    _since: float = field(default_factory=time.perf_counter)

    def step(self) -> bool:
        """An optimizer step is done; whether the script has to end now."""
        self.counts.close_step()
        self.first_step_s = self.first_step_s or process.now_s()
        self._left -= 1
        if self._left > 0:
            return False
        self._left = self._edge()
        self.is_over = self._left == 0
        self._since = time.perf_counter()
        return self.is_over

    @property
    def steps(self) -> int:
        """Done so far."""
        return len(self.counts.steps)

    def _edge(self) -> int:
        everyone = self.edges.exchange(self._facts())
        if not self.edges.leads:
            return self.edges.ask()
        self.facts = everyone
        steps = 0
        try:
            steps = self._next()
        finally:  # whatever rank 0 has found wrong, the others needn't wait
            self.edges.announce(steps)
        return steps

    def _facts(self) -> Facts:
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
            seconds = time.perf_counter() - self._since
            return Facts(
                seconds=seconds,
                reserved_bytes=torch.cuda.memory_reserved(),
                peak_bytes=torch.cuda.max_memory_allocated(),
                retries=torch.cuda.memory_stats()["num_alloc_retries"],
                samples=self.counts.usual().samples,
                losses=self.counts.take_losses(),
            )
        return Facts(
            seconds=time.perf_counter() - self._since,
            peak_bytes=process.peak_memory_bytes(),
            samples=self.counts.usual().samples,
            losses=self.counts.take_losses(),
        )

    def _next(self) -> int:
        """Steps before the next edge, by what all ranks have told; 0 is the end."""
        self._record_losses()
        seconds = max(facts.seconds for facts in self.facts)
        if self._window:
            return self._next_window(seconds)
        self._step_s.append(seconds)
        reserved = sum(facts.reserved_bytes for facts in self.facts)
        if reserved > self._reserved:
            self._reserved, self._last_growth = reserved, len(self._step_s) - 1
        if not warmup.is_over(self._step_s, self.plan, self._last_growth):
            self.channel.send(Progress(steps=len(self._step_s)))
            return 1
        return self._first_window()

    def _first_window(self) -> int:
        self.recording.warmup_steps = len(self._step_s)
        self.recording.warmup_s = sum(self._step_s[1:])
        self.recording.settled = warmup.has_settled(self._step_s[self._last_growth :])
        known = [facts.samples for facts in self.facts]
        self.read = sum(known)
        self.check(self.read)
        step_s = warmup.settled_step_s(self._step_s)
        wanted = round(self.plan.window_s / step_s)
        self._window = max(1, min(self.plan.max_steps_per_window, wanted))
        return self._window

    def _next_window(self, seconds: float) -> int:
        windows = self.recording.windows
        window = Window(
            index=len(windows),
            steps=self._window,
            samples=self.samples * self._window,
            seconds=seconds,
        )
        windows.append(window)
        self.channel.send(WindowDone(window=window))
        goes_on = self.channel.verdict() is Verdict.GO and len(windows) < self.plan.windows
        return self._window if goes_on else 0

    def _record_losses(self) -> None:
        """The mean over the ranks, for each step for which all of them have one."""
        first = len(self.recording.losses)
        for offset, values in enumerate(zip(*(f.losses for f in self.facts), strict=False)):
            for rank, value in enumerate(values):
                if not math.isfinite(value):
                    raise RankError(
                        FailureKind.NON_FINITE,
                        f"the loss of step {first + offset} is {value} on rank {rank} (steps count "
                        "from 0, the warm-up included)",
                    )
            self.recording.losses.append(sum(values) / len(values))

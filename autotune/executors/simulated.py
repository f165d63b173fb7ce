"""The simulated executor: trials on a landscape and a clock of its own, in no time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from threading import Event

from autotune.executors.base import Executor, Launch, LaunchEnd, OnWindow
from autotune.executors.landscapes import Landscape, Layout, layout_of
from autotune.executors.landscapes.chance import generator
from autotune.executors.landscapes.failures import Failure
from autotune.model import (
    GIB,
    PRESETS,
    SIMULATED,
    Machine,
    Outcome,
    SimulatedMeasurement,
    TrainingSettings,
    Window,
)
from autotune.model.protocol import Verdict
from autotune.space.gpus import compute_capability
from autotune.space.memory import MemoryJob, capacity_of, predict
from autotune.space.nccl import NcclVersion

_REASONS = {
    Outcome.OUT_OF_MEMORY: "rank {rank} ran out of memory",
    Outcome.HUNG: "rank {rank} took no part in a collective that the others waited for",
    Outcome.CRASHED: "rank {rank} was ended by SIGSEGV",
    Outcome.INVALID_KNOB: "rank {rank} refused a setting",
    Outcome.DIVERGED: "the loss was not finite",
    Outcome.TIMED_OUT: "not done within the time limit",
    Outcome.NO_METRIC: "every rank exited with status 0, yet rank 0 sent no result",
    Outcome.PREEMPTED: "the machine was taken away",
    Outcome.PLACEMENT: "no machine was free",
    Outcome.ENVIRONMENT: "the machine was at fault",
}
_OF_NO_RANK = (
    Outcome.DIVERGED,
    Outcome.TIMED_OUT,
    Outcome.NO_METRIC,
    Outcome.PREEMPTED,
    Outcome.PLACEMENT,
    Outcome.ENVIRONMENT,
)
_COST_THE_LIMIT = (Outcome.HUNG, Outcome.TIMED_OUT)


@dataclass(kw_only=True)
class VirtualClock:
    """Seconds of a simulated study; they pass only when they are told to."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


class SimulatedExecutor(Executor):
    """Launches nothing: what a trial would say is computed, and `clock` goes on by what it takes.

    What happens depends on the landscape, the study's seed, the trial's number and, through drift,
    on the clock alone; so a resumed study goes on as it would have, if `clock` starts at the time
    that its stored trials took.
    """

    def __init__(
        self, landscape: Landscape, machine: Machine, *, clock: VirtualClock | None = None
    ) -> None:
        if not machine.instance.startswith(SIMULATED):
            raise ValueError(f"{machine.instance} has to be named {SIMULATED}…")
        self.landscape = landscape
        self.clock = clock or VirtualClock()
        self._machine = machine

    def machine(self) -> Machine:
        return self._machine

    def run(self, launch: Launch, on_window: OnWindow, cancel: Event) -> LaunchEnd:
        course = _Course(
            landscape=self.landscape,
            machine=self._machine,
            clock=self.clock,
            launch=launch,
            layout=layout_of(launch.spec.settings, launch.spec.environment),
        )
        try:
            return course.run(on_window, cancel)
        except _Ended as ended:
            return ended.end


class _Ended(Exception):
    """A trial that ends before its last window."""

    def __init__(self, outcome: Outcome, reason: str, rank: int | None = None) -> None:
        super().__init__(reason)
        reason = f"simulated: {reason}"
        self.end = LaunchEnd(outcome=outcome, reason=reason, failed_rank=rank)


@dataclass(kw_only=True)
class _Course:
    """One trial on its way."""

    landscape: Landscape
    machine: Machine
    clock: VirtualClock
    launch: Launch
    layout: Layout
    windows: list[Window] = field(default_factory=list)

    def run(self, on_window: OnWindow, cancel: Event) -> LaunchEnd:
        self._check(cancel)
        self.started_s = self.clock()
        failure = self.landscape.failure(self.layout, self._name)
        self._pass(self.landscape.launch_s)
        peak_bytes = self._peak_bytes()
        chance = generator(self.landscape.seed, "noise", self._name)
        rate = self.landscape.rate(self.layout) * self.landscape.noise.launch(chance)
        steps = self._warm_up(rate)
        for index in range(self.launch.spec.plan.windows):
            self._fail(failure, index)
            self.windows.append(self._window(index, steps, rate, chance))
            verdict = on_window(self.windows[-1])
            self._check(cancel)
            if verdict is not Verdict.GO:
                return self._measured(peak_bytes, stopped=verdict is Verdict.STOP)
        self._fail(failure, None)
        return self._measured(peak_bytes, stopped=False)

    @property
    def _name(self) -> str:
        """The same in every study with this seed: a run's id is not part of it."""
        spec = self.launch.spec
        return f"{spec.seed}:{spec.trial_id.rpartition('-')[2]}"

    @property
    def _ranks(self) -> int:
        return self.launch.nodes * self.launch.ranks_per_node

    @property
    def _samples(self) -> int:
        return self.launch.spec.settings.global_batch(self._ranks)

    def _warm_up(self, rate: float) -> int:
        """Run the warm-up; the steps of a window by its speed, as a rank decides on them."""
        plan = self.launch.spec.plan
        step_s = self._samples / (rate * self.landscape.drift.factor(self.clock()))
        self._pass(plan.min_warmup_steps * step_s)
        return max(1, min(plan.max_steps_per_window, round(plan.window_s / step_s)))

    def _window(self, index: int, steps: int, rate: float, chance: Random) -> Window:
        speed = rate * self.landscape.drift.factor(self.clock())
        samples = steps * self._samples
        seconds = samples / speed / self.landscape.noise.window(chance, steps)
        self._pass(seconds)
        return Window(index=index, steps=steps, samples=samples, seconds=seconds)

    def _pass(self, seconds: float) -> None:
        """Let time pass, up to the trial's limit."""
        left_s = self.started_s + self.launch.time_limit_s - self.clock()
        self.clock.now_s += min(seconds, left_s)
        if seconds > left_s:
            done = f"{len(self.windows)} of {self.launch.spec.plan.windows} windows"
            limit_s = self.launch.time_limit_s
            raise _Ended(Outcome.TIMED_OUT, f"not done after {limit_s:.0f} s, with {done} measured")

    def _fail(self, failure: Failure | None, windows: int | None) -> None:
        """End the trial if it fails after so many windows; None is after the last."""
        if failure is None or (windows is not None and windows < failure.after_windows):
            return
        if failure.outcome in _COST_THE_LIMIT:
            self.clock.now_s = self.started_s + self.launch.time_limit_s
        rank = None
        if failure.outcome not in _OF_NO_RANK:
            rank = generator(self.landscape.seed, "rank", self._name).randrange(self._ranks)
        raise _Ended(failure.outcome, _REASONS[failure.outcome].format(rank=rank), rank)

    def _check(self, cancel: Event) -> None:
        if cancel.is_set():
            raise _Ended(Outcome.CANCELLED, "ended because the run was stopped")

    def _peak_bytes(self) -> int:
        """Peak memory of a rank, as a real trial would read it. Ends a trial that lacks it."""
        spec = self.launch.spec
        if spec.workload not in PRESETS:
            return 0
        nccl = self.machine.versions.get("nccl", "")
        job = MemoryJob(
            config=PRESETS[spec.workload],
            device=spec.device,
            nodes=self.launch.nodes,
            ranks_per_node=self.launch.ranks_per_node,
            nccl=NcclVersion.parse(nccl) if nccl else None,
            compute_capability=min(
                (compute_capability(gpu.name) for gpu in self.machine.gpus), default=0
            ),
        )
        share = self.landscape.memory_percent / 100
        predicted = predict(job, spec.settings, spec.environment)
        needed = round(predicted.total_bytes * share)
        capacity = capacity_of(self.machine, spec.device, self.launch.ranks_per_node)
        if capacity is not None and needed > capacity.per_rank_bytes:
            raise _Ended(
                Outcome.OUT_OF_MEMORY,
                f"rank 0 needs {needed / GIB:.1f} GiB and has {capacity.describe()}",
                0,
            )
        return round(predicted.measured_bytes * share)

    def _measured(self, peak_bytes: int, *, stopped: bool) -> LaunchEnd:
        planned, done = self.launch.spec.plan.windows, len(self.windows)
        losses, norms = self.landscape.training(self.layout)
        measurement = SimulatedMeasurement(
            windows=tuple(self.windows),
            losses=losses,
            gradient_norms=norms,
            peak_memory_bytes=(peak_bytes,) * self._ranks,
            allocator_retries=0,
            effective=_effective(self.launch.spec.settings, self.layout),
            landscape=self.landscape.name,
        )
        pruned = stopped and done < planned
        return LaunchEnd(
            outcome=Outcome.PRUNED if pruned else Outcome.COMPLETED,
            reason=f"simulated: stopped after {done} of {planned} windows" if pruned else "",
            measurement=measurement,
        )


def _effective(
    settings: TrainingSettings, layout: Layout
) -> Mapping[str, str | int | float | bool]:
    """Every setting that was asked for, for all of them take effect here."""
    names = settings.__dataclass_fields__
    return {n: v for n, v in layout.items() if n in names and getattr(settings, n) is not None}

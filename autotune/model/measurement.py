"""What a trial measured, and what a simulated one says in its place."""

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.model.candidate import KnobValue


@dataclass(frozen=True, kw_only=True)
class Window:
    """Steps that were timed together, on the slowest rank."""

    index: int
    steps: int
    samples: int
    """Over all ranks."""
    seconds: float

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.seconds


@dataclass(frozen=True, kw_only=True)
class Timings:
    """What a launch is scored by, raw."""

    windows: tuple[Window, ...]
    losses: tuple[float, ...]
    """Mean over the global batch for each optimizer step, warm-up included."""
    gradient_norms: tuple[float, ...]
    """Total norm for each optimizer step, before clipping."""
    peak_memory_bytes: tuple[int, ...]
    """Per rank: the CUDA allocator's peak, or on CPU the process's own, without pages of files."""
    allocator_retries: int
    """CUDA allocations that succeeded only after a flush of the cache, over all ranks."""
    effective: Mapping[str, KnobValue]
    """Settings read back from the running objects, not from the request."""


@dataclass(frozen=True, kw_only=True)
class Measurement(Timings):
    """What a real trial measured."""

    warmup_steps: int
    """Optimizer steps before the first window."""
    settled: bool | None = None
    """Whether step times had settled by then; if not, the plan's limit ended the warm-up."""
    communication_share: float | None = None
    """Of an optimizer step's time, in [0, 1]: what the step would be shorter by if its collectives
    took no time. What is hidden behind computation doesn't count. None if it wasn't asked for, or
    if the device doesn't let itself be profiled."""
    build_s: float
    """From process start to the first step: imports, rendezvous, building the workload."""
    warmup_s: float
    parameters: int
    """Elements of the whole model."""
    versions: Mapping[str, str]
    live: bool = False
    """It ran in processes that had run another trial before."""


@dataclass(frozen=True, kw_only=True)
class SimulatedMeasurement(Timings):
    """What a simulated trial says. It is never saved as a configuration of a real instance."""

    landscape: str
    """Where its speeds come from."""


AnyMeasurement = Measurement | SimulatedMeasurement

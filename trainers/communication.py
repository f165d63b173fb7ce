"""How much of an optimizer step is communication that nothing hides.

Measured on a few steps more, after the windows. What these steps train is of no use: under DDP the
ranks' parameters drift apart.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from autotune.trainers.device_trace import traced_step
from autotune.trainers.measure import gather
from autotune.trainers.step import Trainer

STEPS = 3


def communication_share(trainer: Trainer, step_s: float) -> float | None:
    """Of a step, which has taken `step_s` seconds in the windows: what communication adds to it.

    A collective call. A rank that waits for a slower one isn't communicating, so that of all ranks'
    times in collectives the shortest counts. None if a rank can't see its own.
    """
    times = torch.tensor(_exposed_s(trainer, step_s), dtype=torch.float64, device=trainer.device)
    exposed, whole = gather(times).T
    if not whole.min() > 0:
        return None
    return max(0.0, min(1.0, float(exposed.min() / whole.max())))


def _exposed_s(trainer: Trainer, step_s: float) -> tuple[float, float]:
    """On this rank: seconds of communication that nothing hides, and of the step that has them."""
    if trainer.device.type == "cuda":
        return traced_step(trainer)
    if isinstance(trainer.model, DistributedDataParallel):
        return step_s - _without_reduction_s(trainer, trainer.model), step_s
    return _blocked_s(trainer)


def _without_reduction_s(trainer: Trainer, model: DistributedDataParallel) -> float:
    """Of a step whose gradients stay where they are.

    DDP waits for its collectives in C++, where nobody sees it.
    """
    seconds = []
    for _ in range(STEPS):
        started = time.perf_counter()
        with model.no_sync():
            trainer.step()
        seconds.append(time.perf_counter() - started)
    return median(seconds)


def _blocked_s(trainer: Trainer) -> tuple[float, float]:
    """In collectives, of a step under FSDP2; it can't do without, but on a CPU waits for each."""
    steps = []
    for _ in range(STEPS):
        started = time.perf_counter()
        with _stopwatch() as blocked:
            trainer.step()
        steps.append((blocked.seconds, time.perf_counter() - started))
    blocked_s, step_s = zip(*steps, strict=True)
    return median(blocked_s), median(step_s)


class Stopwatch:
    """Adds up the time in the calls that it is put around; those within others once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._running = False

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, timed."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._running:
                return function(*args, **kwargs)
            self._running = True
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - started
                self._running = False

        return timed


@contextmanager
def _stopwatch() -> Iterator[Stopwatch]:
    """Around all that waits for a collective in Python: its handle, and the norm made whole."""
    stopwatch = Stopwatch()
    wait, full_tensor = dist.Work.wait, DTensor.full_tensor
    classes: tuple[Any, Any] = (dist.Work, DTensor)
    classes[0].wait, classes[1].full_tensor = stopwatch.around(wait), stopwatch.around(full_tensor)
    try:
        yield stopwatch
    finally:
        classes[0].wait, classes[1].full_tensor = wait, full_tensor

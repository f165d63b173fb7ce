"""What a CUDA device does during a step, from PyTorch's profiler."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile, schedule

from autotune.trainers.step import Trainer

_KERNELS = ("ncclDevKernel", "ncclKernel")
"""How the names of NCCL's kernels begin, from 2.18 on and before. `nccl:all_reduce` and the like
are PyTorch's annotations, which span them."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Something that the device did, in microseconds of the profiler's clock."""

    name: str
    start: float
    end: float

    @property
    def is_communication(self) -> bool:
        return self.name.startswith(_KERNELS)


def traced_step(trainer: Trainer) -> tuple[float, float]:
    """Seconds of communication beside which the device does nothing else, and of the step.

    The second of two steps: starting the profiler takes the ranks unequally long. Zeros where the
    profiler isn't allowed to see the device.
    """
    once = schedule(wait=0, warmup=1, active=1, repeat=1)
    with profile(activities=[ProfilerActivity.CUDA], schedule=once) as profiler:
        for _ in range(2):
            trainer.step()
            torch.cuda.synchronize(trainer.device)
            profiler.step()
    spans = _spans(profiler.events() or ())
    if not spans:
        return 0.0, 0.0
    whole_us = max(span.end for span in spans) - min(span.start for span in spans)
    return exposed_us(spans) / 1e6, whole_us / 1e6


def exposed_us(spans: Sequence[Span]) -> float:
    """Time in which there is communication and nothing else."""
    everything = _length((span.start, span.end) for span in spans)
    rest = _length((span.start, span.end) for span in spans if not span.is_communication)
    return everything - rest


def _length(intervals: Iterable[tuple[float, float]]) -> float:
    """Of the union of `intervals`."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _spans(events: Iterable[Any]) -> list[Span]:
    return [
        Span(name=event.name, start=event.time_range.start, end=event.time_range.end)
        for event in events
        if event.device_type == DeviceType.CUDA and not event.is_user_annotation
    ]

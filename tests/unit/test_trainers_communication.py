"""The share of communication, on a clock by which computing a step takes one second."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from autotune.model import ShardingStrategy, TrainingSettings
from autotune.trainers import communication
from autotune.trainers.communication import communication_share
from autotune.trainers.device_trace import Span, exposed_us
from autotune.trainers.parallelize import parallelize
from autotune.trainers.sources import build
from autotune.trainers.step import Trainer
from autotune.trainers.workload import Context

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Clock:
    """Seconds that somebody says have gone by."""

    def __init__(self) -> None:
        self.now = 0.0

    def takes(self, seconds: float, function: Any) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            self.now += seconds
            return function(*args, **kwargs)

        return timed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(communication, "time", SimpleNamespace(perf_counter=lambda: made.now))
    return made


def trainer(clock: Clock, settings: TrainingSettings) -> Trainer:
    workload = build("tiny", "", Context(device=CPU, seed=0))
    made = Trainer(workload, parallelize(workload, settings, CPU), settings, 0, CPU)
    made.optimizer.step = clock.takes(1.0, made.optimizer.step)  # type: ignore[method-assign]
    for _ in range(2):
        made.step()
    return made


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("static", [False, True])
def test_under_ddp_it_is_what_a_step_without_reduction_saves(
    clock: Clock, accumulation: int, static: bool
) -> None:
    settings = TrainingSettings(micro_batch=1, accumulation_steps=accumulation, static_graph=static)
    ran = trainer(clock, settings)
    assert communication_share(ran, 4.0) == 0.75
    assert communication_share(ran, 0.5) == 0.0, "faster than without: noise"


def test_under_fsdp_it_is_the_time_spent_waiting(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TrainingSettings(
        strategy=ShardingStrategy.FSDP_FULL, micro_batch=1, reshard_after_forward=True
    )
    monkeypatch.setattr(DTensor, "full_tensor", clock.takes(3.0, DTensor.full_tensor))
    before = dist.Work.wait
    ran = trainer(clock, settings)
    assert communication_share(ran, 999.0) == 0.75
    assert dist.Work.wait is before


def test_the_time_within_nested_calls_counts_once(clock: Clock) -> None:
    stopwatch = communication.Stopwatch()
    inner = stopwatch.around(clock.takes(1.0, lambda: None))
    stopwatch.around(clock.takes(2.0, inner))()
    inner()
    assert stopwatch.seconds == 4.0


def span(name: str, start: float, end: float) -> Span:
    return Span(name=name, start=start, end=end)


def test_on_a_device_it_is_what_runs_beside_nothing_else() -> None:
    spans = [
        span("gemm", 0, 10),
        span("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5, 20),  # 10 to 12 and 15 to 20
        span("Memcpy DtoD", 12, 15),
        span("ncclKernel_AllGather", 18, 22),  # 20 to 22
        span("gemm", 30, 31),
        span("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", 30, 31),  # hidden
    ]
    assert exposed_us(spans) == 2 + 5 + 2
    assert exposed_us(spans[:1]) == 0
    assert exposed_us(spans[1:2]) == 15
    assert exposed_us([]) == 0

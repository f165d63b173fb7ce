"""The end of the warm-up, over made-up step times in units of a settled step."""

import math
import random
from collections.abc import Callable, Iterator
from statistics import fmean

import pytest

from autotune.errors import FieldError
from autotune.model import MeasurementPlan
from autotune.trainers.warmup import has_settled, is_over, settled_step_s

PLAN = MeasurementPlan(min_warmup_steps=3, max_warmup_steps=50, max_warmup_s=1e9)
NOISES = (0.002, 0.03, 0.17)
"""A quiet GPU, a busy one, and shared cores (standard deviation of the logarithm)."""
SEEDS = range(100)
Shape = Callable[[int], float]


def compiled(step: int) -> float:
    return 60.0 if step == 0 else 1.0


def compiled_twice(step: int) -> float:
    return 60.0 if step in (0, 2) else 1.0


def decaying(step: int) -> float:
    return 1.0 + 2.0 * math.exp(-step / 3)


def allocating(step: int) -> float:
    return (6.0, 1.6, 1.4, 1.3, 1.2, 1.1)[step] if step < 6 else 1.0


def drifting(step: int) -> float:
    return compiled(step) * (1 + 0.01 * step)


SHAPES = (compiled, compiled_twice, decaying, allocating, drifting)


def steps(shape: Shape, noise: float, seed: int, *, bursts: float = 0.0) -> Iterator[float]:
    rng = random.Random(seed)
    step = 0
    while True:
        burst = 4.0 if rng.random() < bursts else 1.0
        yield shape(step) * burst * rng.lognormvariate(0, noise)
        step += 1


def warmed(times: Iterator[float], plan: MeasurementPlan = PLAN) -> list[float]:
    """The warm-up's step times when it ends."""
    taken: list[float] = []
    while not is_over(taken, plan):
        taken.append(next(times))
    return taken


def excess(shape: Shape, taken: list[float]) -> float:
    """How much longer than the settled ones the next ten steps are."""
    return fmean(shape(step) for step in range(len(taken), len(taken) + 10)) - 1


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("shape", [compiled, compiled_twice, decaying, allocating])
def test_what_is_left_is_less_than_the_noise(shape: Shape, noise: float) -> None:
    left = sorted(excess(shape, warmed(steps(shape, noise, seed))) for seed in SEEDS)
    assert left[90] <= max(0.02, noise / 2)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_settles_long_before_the_cap(shape: Shape, noise: float) -> None:
    taken = [warmed(steps(shape, noise, seed)) for seed in SEEDS]
    assert all(has_settled(times) for times in taken)
    counts = sorted(map(len, taken))
    assert counts[50] <= 16
    assert counts[-1] < PLAN.max_warmup_steps


@pytest.mark.parametrize("noise", NOISES)
def test_steps_that_are_steady_from_the_second_on_cost_few(noise: float) -> None:
    counts = sorted(len(warmed(steps(compiled, noise, seed))) for seed in SEEDS)
    assert counts[50] <= (4 if noise < 0.01 else 9)


@pytest.mark.parametrize("noise", NOISES)
def test_bursts_do_not_keep_it_from_settling(noise: float) -> None:
    taken = [warmed(steps(compiled, noise, seed, bursts=0.1)) for seed in SEEDS]
    assert all(map(has_settled, taken))
    sizes = sorted(settled_step_s(times) for times in taken)
    assert sizes[50] == pytest.approx(1.0, abs=0.1)
    assert sizes[90] < 1.5, "a single burst doesn't size the windows"


def test_steps_that_go_on_getting_faster_end_at_the_cap() -> None:
    taken = warmed(steps(lambda step: 0.9**step, 0.0, 0))
    assert len(taken) == PLAN.max_warmup_steps
    assert not has_settled(taken)


def test_the_cap_in_seconds_leaves_the_first_step_out() -> None:
    plan = MeasurementPlan(min_warmup_steps=2, max_warmup_s=10.0)
    assert len(warmed(iter([60.0, 9.0, 8.0, 7.0]), plan)) == 3
    assert len(warmed(iter([60.0, 11.0, 8.0, 7.0]), plan)) == 2


def test_steps_before_memory_has_stopped_growing_are_not_steady() -> None:
    times = [1.0] * 6
    assert is_over(times, PLAN)
    assert not is_over(times, PLAN, steady_from=3)
    assert is_over(times, PLAN, steady_from=2)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"min_warmup_steps": 0}, "min_warmup_steps"),
        ({"min_warmup_steps": 5, "max_warmup_steps": 4}, "max_warmup_steps"),
        ({"max_warmup_s": 0.0}, "max_warmup_s"),
        ({"max_warmup_s": float("inf")}, "max_warmup_s"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(changes: dict[str, float], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        MeasurementPlan(**changes)  # type: ignore[arg-type]
    assert caught.value.field == field

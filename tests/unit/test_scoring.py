"""Scores and comparisons; statistical claims by simulation over fixed seeds."""

import random
from statistics import fmean

import pytest

from autotune.model import DeviceKind, Measurement, Window
from autotune.scoring.compare import ratios
from autotune.scoring.parity import disparity
from autotune.scoring.score import score


def measurement(
    seconds: list[float], *, retries: int = 0, losses: tuple[float, ...] = (2.0, 1.9, 1.8)
) -> Measurement:
    return Measurement(
        windows=tuple(
            Window(index=i, steps=10, samples=320, seconds=s) for i, s in enumerate(seconds)
        ),
        warmup_steps=3,
        settled=True,
        communication_share=None,
        build_s=1.0,
        warmup_s=0.1,
        losses=losses,
        gradient_norms=losses,
        peak_memory_bytes=(1, 1),
        allocator_retries=retries,
        parameters=1,
        effective={},
        versions={},
    )


def test_one_disturbed_window_does_not_decide_the_throughput() -> None:
    assert score(measurement([1, 1, 1, 1, 9])).samples_per_second == 320


def test_steady_windows_are_fully_stable() -> None:
    found = score(measurement([1.0] * 5))
    assert found.stability == 1
    assert found.value == 320


def test_a_longer_tail_and_retries_lower_the_score() -> None:
    steady = score(measurement([1, 1, 1, 1, 1.1]))
    shaky = score(measurement([1, 1, 1, 2, 2]))
    assert shaky.samples_per_second == steady.samples_per_second
    assert shaky.value < steady.value
    values = [score(measurement([1.0] * 5, retries=n)).value for n in range(4)]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 4


def study(rng: random.Random, true: list[float], rounds: int, noise: float) -> list[list[float]]:
    """Samples/s for the baseline (1.0) and the finalists, with launch noise and a drift."""
    drift = [1 - 0.05 * index for index in range(rounds)]
    return [[100 * t * d * rng.lognormvariate(0, noise) for d in drift] for t in [1.0, *true]]


@pytest.mark.parametrize("noise", [0.01, 0.04])
@pytest.mark.parametrize("rounds", [2, 3, 5])
def test_all_intervals_of_a_study_hold_together(noise: float, rounds: int) -> None:
    rng = random.Random(7)
    true = [0.97, 1.05]
    hits = 0
    for _ in range(2000):
        baseline, *arms = study(rng, true, rounds, noise)
        found = ratios(baseline, dict(enumerate(arms)))
        hits += all(found[i].low <= t <= found[i].high for i, t in enumerate(true))
    # 95 % nominal; 2,000 studies put the standard error at 0.5 %.
    assert hits / 2000 >= 0.935


def test_equal_candidates_seldom_win_and_true_gains_are_found() -> None:
    rng = random.Random(3)
    false = found = 0
    for _ in range(1000):
        baseline, *arms = study(rng, [1.0, 1.0], 5, 0.037)
        false += any(r.low > 1 for r in ratios(baseline, dict(enumerate(arms))).values())
        baseline, *arms = study(rng, [1.0, 1.15], 5, 0.037)
        found += ratios(baseline, dict(enumerate(arms)))[1].low > 1
    assert false / 1000 <= 0.05
    assert found / 1000 >= 0.9


def test_drift_common_to_all_arms_does_not_widen_the_interval() -> None:
    found = ratios([100.0, 50.0, 10.0], {"arm": [110.0, 55.0, 11.0]})["arm"]
    assert found.estimate == pytest.approx(1.1)
    assert found.high - found.low < 1e-9


def test_the_estimate_has_no_bias() -> None:
    rng = random.Random(11)
    estimates = []
    for _ in range(2000):
        baseline, arm = study(rng, [1.05], 5, 0.04)
        estimates.append(ratios(baseline, {0: arm})[0].estimate)
    assert fmean(estimates) == pytest.approx(1.05, rel=0.005)


def test_more_finalists_widen_the_intervals() -> None:
    # The same data for each arm: what changes is the correction alone.
    one = ratios([100.0, 101.0, 99.0], {0: [110.0, 108.0, 111.0]})[0]
    two = ratios([100.0, 101.0, 99.0], {i: [110.0, 108.0, 111.0] for i in range(8)})[0]
    assert one.estimate == pytest.approx(two.estimate)
    with pytest.raises(ValueError, match="two complete rounds"):
        ratios([100.0], {0: [110.0]})
    with pytest.raises(ValueError, match="two complete rounds"):
        ratios([100.0, 101.0], {0: [110.0]})


def test_parity_allows_rounding_and_nothing_more() -> None:
    base = measurement([1.0])
    close = measurement([1.0], losses=(2.0001, 1.9, 1.8))
    far = measurement([1.0], losses=(2.0, 1.95, 1.8))
    broken = measurement([1.0], losses=(2.0, float("nan"), 1.8))
    assert disparity(close, base, DeviceKind.CPU) == ""
    assert "loss of step 1" in disparity(far, base, DeviceKind.CPU)
    assert disparity(far, base, DeviceKind.CUDA) != ""
    assert "nan" in disparity(broken, base, DeviceKind.CUDA)

"""What a study concludes from its own noise: drift, outliers, races, and how often to launch."""

import math
import random
from collections.abc import Sequence
from statistics import fmean

import pytest

from autotune.scoring.compare import ratios
from autotune.scoring.design import (
    MAX_ROUNDS,
    MIN_ROUNDS,
    POWER,
    WORTHWHILE,
    rounds_needed,
    shown_at_least,
)
from autotune.scoring.drift import Drift, Timed, drift
from autotune.scoring.noise import PRIOR_LAUNCH, Noise, Pool
from autotune.scoring.outliers import outliers
from autotune.scoring.racing import MIN_WINDOWS, Leader, is_known, is_lost


def launches(rng: random.Random, slope: float, noise: float) -> list[list[Timed]]:
    """A baseline launched eight times in half an hour, and two candidates launched twice."""
    times = [[225.0 * i for i in range(8)], [300.0, 1500.0], [700.0, 1300.0]]
    return [
        [Timed(at_s=at, log_rate=5.0 + slope * at + rng.gauss(0, noise)) for at in group]
        for group in times
    ]


@pytest.mark.parametrize("noise", [0.01, 0.04])
def test_a_drift_that_is_not_there_is_seldom_corrected_for(noise: float) -> None:
    rng = random.Random(1)
    seen = sum(drift(launches(rng, 0.0, noise)).per_second != 0 for _ in range(1000))
    # 1 % is stated; 2.2 % of 1000 are four standard deviations above it.
    assert seen <= 22


def test_a_clear_drift_is_found_with_its_size() -> None:
    rng = random.Random(2)
    slope = math.log(0.8) / 3600
    found = [drift(launches(rng, slope, 0.01)).percent_per_hour for _ in range(100)]
    assert fmean(found) == pytest.approx(-20, abs=1)
    assert all(-30 < one < -10 for one in found)


def test_a_drift_is_taken_out() -> None:
    falling = Drift(per_second=math.log(0.9) / 3600)
    assert falling.percent_per_hour == pytest.approx(-10)
    assert falling.corrected(math.log(90), 3600) == pytest.approx(math.log(100))


@pytest.mark.parametrize("groups", [[], [[]], [[Timed(at_s=0, log_rate=1)]] * 9])
def test_without_repeated_launches_there_is_no_drift(groups: Sequence[Sequence[Timed]]) -> None:
    assert drift(groups) == Drift()


def test_launches_at_one_time_show_no_drift() -> None:
    group = [Timed(at_s=5, log_rate=float(i)) for i in range(6)]
    assert drift([group]) == Drift()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        ([1.0, 50.0], []),
        ([1.0, 1.0, 1.0, 1.0], []),
        ([1.0, 1.1, 0.9, 1.05, 5.0], [4]),
        ([0.01, 1.0, 1.1, 0.9, 1.05], [0]),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0], [6]),
    ],
)
def test_outliers(values: list[float], expected: list[int]) -> None:
    assert outliers(values) == expected


def test_few_of_normal_windows_count_as_disturbed() -> None:
    rng = random.Random(3)
    found = sum(len(outliers([rng.gauss(1, 0.05) for _ in range(20)])) for _ in range(500))
    assert found / 10_000 < 0.02


def test_the_noise_of_a_study_outweighs_what_was_assumed() -> None:
    rng = random.Random(4)
    pool = Pool(PRIOR_LAUNCH)
    assert pool.deviation == PRIOR_LAUNCH
    pool.add([5.0])
    assert pool.deviation == PRIOR_LAUNCH, "one launch has no spread"
    for _ in range(50):
        pool.add([rng.gauss(0, 0.01) for _ in range(4)])
    assert pool.deviation == pytest.approx(0.0115, abs=0.002)


@pytest.mark.parametrize("noise", [Noise(launch=0.01, window=0.03), Noise(launch=0.04, window=0.1)])
def test_a_trial_as_good_as_the_best_is_seldom_stopped(noise: Noise) -> None:
    rng = random.Random(5)
    stopped = 0
    for _ in range(2000):
        leader = Leader(log_rate=rng.gauss(0, noise.launch), launches=1)
        level = rng.gauss(0, noise.launch)
        windows: list[float] = []
        for _ in range(5):
            windows.append(level + rng.gauss(0, noise.window))
            if is_lost(windows, leader, noise):
                stopped += 1
                break
    # Half a percent at each of five edges, which hang together.
    assert stopped / 2000 < 0.02


def test_a_trial_that_is_far_behind_is_stopped_at_once() -> None:
    noise = Noise(launch=0.03, window=0.05)
    leader = Leader(log_rate=0.0, launches=3)
    assert is_lost([math.log(0.7)], leader, noise)
    assert not is_lost([math.log(0.95)], leader, noise)


def test_more_windows_are_measured_while_they_tell_something() -> None:
    quiet, shaky = Noise(launch=0.04, window=0.01), Noise(launch=0.01, window=0.1)
    assert not is_known(MIN_WINDOWS - 1, quiet)
    assert is_known(MIN_WINDOWS, quiet)
    assert not is_known(5, shaky)


def test_rounds_follow_noise_and_hope() -> None:
    assert rounds_needed(0.01, 0.05) == MIN_ROUNDS
    assert rounds_needed(0.04, 0.3) == MIN_ROUNDS
    assert MIN_ROUNDS < rounds_needed(0.04, 0.05) < MAX_ROUNDS
    assert rounds_needed(0.2, 0.05) == MAX_ROUNDS
    needed = [rounds_needed(noise / 1000, 0.05, share=0.5) for noise in range(1, 100)]
    assert needed == sorted(needed)
    assert rounds_needed(0.03, 0.0) == rounds_needed(0.03, WORTHWHILE), (
        "a hope below is not planned for"
    )


def test_the_planned_rounds_show_the_gain_as_often_as_stated() -> None:
    rng = random.Random(6)
    noise, gain = 0.04, 0.05
    rounds = rounds_needed(noise, gain)
    shown = 0
    for _ in range(2000):
        baseline = [100 * rng.lognormvariate(0, noise) for _ in range(rounds)]
        finalist = [100 * (1 + gain) * rng.lognormvariate(0, noise) for _ in range(rounds)]
        shown += ratios(baseline, {"a": finalist})["a"].low > 1
    # POWER is planned for; 3 % below is more than four standard deviations.
    assert shown / 2000 > POWER - 0.03
    assert shown_at_least(noise, rounds) <= math.log1p(gain)

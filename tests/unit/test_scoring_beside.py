"""Whether it is seen that trials disturb each other, over many seeds."""

import math
import random

import pytest

from autotune.scoring.beside import Disturbance, disturbance
from autotune.scoring.noise import PRIOR_LAUNCH, Noise, Pool

SEEDS = range(400)


def study(seed: int, *, noise: float, slower: float, lanes: int = 2) -> Disturbance:
    """What three launches alone and three on all lanes say."""
    rng = random.Random(seed)
    alone = [rng.gauss(5, noise) for _ in range(3)]
    beside = [rng.gauss(5 + math.log(slower), noise) for _ in range(3 * lanes)]
    pool = Pool(PRIOR_LAUNCH)
    pool.add(alone)
    known = Noise(launch=pool.deviation, freedom=pool.freedom)
    return disturbance(alone, beside, known)


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.06])
def test_launches_that_are_alike_are_seldom_told_apart(noise: float) -> None:
    shown = sum(study(seed, noise=noise, slower=1.0).is_shown for seed in SEEDS)
    assert shown <= 0.08 * len(SEEDS)


@pytest.mark.parametrize(("noise", "slower"), [(0.01, 0.93), (0.03, 0.9), (0.06, 0.8)])
def test_a_disturbance_is_seen(noise: float, slower: float) -> None:
    shown = sum(study(seed, noise=noise, slower=slower).is_shown for seed in SEEDS)
    assert shown >= 0.85 * len(SEEDS)


def test_both_speeds_are_told() -> None:
    found = disturbance([math.log(200)], [math.log(100)] * 2, Noise())
    assert (found.alone, found.beside, found.percent) == pytest.approx((200, 100, -50))
    assert found.is_shown

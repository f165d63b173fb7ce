"""The staged search: its model, and that it finds what is fast with few launches."""

import math
import random
from statistics import fmean

import numpy as np
import pytest

from autotune.model import Candidate
from autotune.scoring.improvement import expected_improvement
from autotune.space.catalogue import load_knobs
from autotune.space.facts import Facts
from autotune.space.knob import Effect
from autotune.space.space import Space
from autotune.strategies.knob_features import features
from autotune.strategies.linear_model import LinearModel
from autotune.strategies.staged import StagedStrategy, neighbours
from tests.fakes import MACHINE
from tests.unit.test_loop import TARGET

SPACE = Space(load_knobs(), Facts.of(MACHINE, TARGET))
SIZE = {Effect.LARGE: 0.3, Effect.MEDIUM: 0.05, Effect.SMALL: 0.02}


class Landscape:
    """log(score) as a sum of effects drawn for each value, some of them by strategy."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, candidate: Candidate) -> float:
        total = 5.0
        for question, value in SPACE.questions(candidate):
            if value == SPACE.baseline().get(question.knob.name):
                continue
            size = SIZE[question.knob.effect]
            total += self._draw(question.knob.name, value).gauss(-size / 2, size)
            total += self._draw(question.knob.name, value, candidate["strategy"]).gauss(0, size / 4)
        return total

    def _draw(self, *names: object) -> random.Random:
        return random.Random(f"{self._seed}:{names}")


def search(landscape: Landscape, noise: float, seed: int) -> list[Candidate]:
    """Every candidate that was launched until the search ended."""
    rng = random.Random(seed)
    strategy = StagedStrategy(SPACE, seed)

    def launch(candidate: Candidate) -> None:
        strategy.tell(candidate, math.exp(landscape(candidate) + rng.gauss(0, noise)))

    for _ in range(3):
        launch(SPACE.baseline())
    tried = []
    while (candidate := strategy.ask()) is not None:
        tried.append(candidate)
        launch(candidate)
    return tried


def test_few_launches_find_what_is_nearly_the_best() -> None:
    everything = list(SPACE.candidates())
    behind, launches = [], []
    for seed in range(20):
        landscape = Landscape(seed)
        best = max(map(landscape, everything))
        tried = search(landscape, 0.01, seed)
        assert len(tried) == len(set(tried))
        behind.append(best - max(landscape(c) for c in [*tried, SPACE.baseline()]))
        launches.append(len(tried))
    assert sum(one <= 0.02 for one in behind) >= 19
    assert sum(launches) / len(launches) < len(everything) / 4


def test_every_value_that_is_not_small_is_tried_alone_first() -> None:
    base = SPACE.baseline()
    tried = search(lambda _: 5.0, 0.01, 0)  # type: ignore[arg-type]
    single = [candidate for candidate in tried if alone(candidate, base)]
    assert tried[: len(single)] == single
    assert {"bucket_cap_mb", "activation_checkpointing", "strategy"} <= {
        name for candidate in single for name in candidate.differences(base)
    }
    assert StagedStrategy(SPACE, 0).pivotal <= set(single)


def alone(candidate: Candidate, base: Candidate) -> bool:
    """Whether one knob is changed, and what that brings along."""
    changed = [name for name in candidate.differences(base) if name in base]
    return len(changed) == 1 and not {"forward_prefetch"} & set(changed)


def test_a_noisy_machine_is_searched_less_since_launches_tell_less() -> None:
    counts = [len(search(Landscape(3), noise, 0)) for noise in (0.005, 0.1)]
    assert counts[1] < counts[0]


def test_what_always_fails_is_left_alone() -> None:
    strategy = StagedStrategy(SPACE, 0)
    strategy.tell(SPACE.baseline(), 100.0)
    failed = 0
    while (candidate := strategy.ask()) is not None:
        fails = candidate["activation_checkpointing"] == "every_block"
        failed += fails
        strategy.tell(candidate, None if fails else 100.0)
    assert 0 < failed <= 8


def test_the_model_is_the_regression_that_it_says() -> None:
    """Against the normal equations of ridge regression with a weight for each prior."""
    rng = random.Random(1)
    names = [f"f{i}" for i in range(100)]
    prior = {name: 0.05 + 0.3 * rng.random() for name in names}
    model = LinearModel(0.1)
    rows, readings = [], []
    for _ in range(60):
        chosen = rng.sample(names, 5)
        readings.append(rng.gauss(0, 1))
        rows.append([float(name in chosen) for name in names])
        model.learn(model.index({name: prior[name] for name in chosen}), readings[-1])
    x = np.array(rows)
    precision = x.T @ x / 0.1**2 + np.diag([1 / prior[name] ** 2 for name in names])
    covariance = np.linalg.inv(precision)
    weights = covariance @ x.T @ np.array(readings) / 0.1**2
    for _ in range(10):
        chosen = rng.sample(names, 4)
        row = np.array([float(name in chosen) for name in names])
        mean, deviation = model.predict(model.index({name: prior[name] for name in chosen}))
        assert mean == pytest.approx(row @ weights)
        assert deviation == pytest.approx(math.sqrt(row @ covariance @ row))


def test_neighbouring_values_share_what_lies_between_them() -> None:
    made = {steps: pinned(steps) for steps in (1, 2, 8)}
    sets = {steps: set(features(SPACE, candidate)) for steps, candidate in made.items()}
    assert sets[1] < sets[2] < sets[8]


def pinned(steps: int) -> Candidate:
    return SPACE.build(
        lambda q: steps if q.knob.name == "accumulation_steps" else SPACE.baseline()[q.knob.name]
    )


def test_neighbours_differ_in_one_knob_or_in_what_it_brings_along() -> None:
    base = SPACE.baseline()
    found = list(neighbours(SPACE, base))
    assert len(found) == len(set(found))
    assert base not in found
    assert {"strategy", "accumulation_steps", "bucket_cap_mb"} <= {
        name for candidate in found for name in candidate.differences(base)
    }


@pytest.mark.parametrize(("ahead", "deviation"), [(0.0, 0.1), (-0.2, 0.1), (0.3, 0.2)])
def test_expected_improvement_is_what_draws_say(ahead: float, deviation: float) -> None:
    rng = random.Random(7)
    drawn = sum(max(0.0, rng.gauss(ahead, deviation)) for _ in range(200_000)) / 200_000
    assert expected_improvement(ahead, deviation) == pytest.approx(drawn, rel=0.03)
    assert expected_improvement(-1.0, 0.0) == 0.0


def believed_ahead(seed: int) -> float:
    """Of a candidate that reads 6 % more eight times, where its neighbours are all equal."""
    rng = random.Random(seed)
    strategy = StagedStrategy(SPACE, 0)
    base = SPACE.baseline()
    better = next(c for c in neighbours(SPACE, base) if c["strategy"] == "fsdp_grad_op")
    kin = dict.fromkeys([*neighbours(SPACE, base), *neighbours(SPACE, better)])
    equal = [candidate for candidate in kin if candidate not in (base, better)]
    for candidate in [*[base] * 5, *equal, *[better] * 8]:
        ahead = 0.06 if candidate == better else 0.0
        strategy.tell(candidate, math.exp(5 + ahead + rng.gauss(0, 0.04)))
    found = strategy.compare(better, base)
    assert found is not None
    return found.ahead


def test_readings_are_believed_where_a_narrow_prior_is_the_likeliest() -> None:
    # 0.034 if what a candidate has for itself gets as narrow as all else.
    assert fmean(map(believed_ahead, range(8))) > 0.045

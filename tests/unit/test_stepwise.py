"""A study whose trials somebody else launches, without anybody launching them."""

import json
import random
from collections.abc import Callable

import pytest

from autotune.compose import build_spec
from autotune.loop.plan import Step
from autotune.loop.stepwise import Stepwise
from autotune.machines import Place
from autotune.model import Conclusion, Outcome, Phase, TrainingSettings
from autotune.model.protocol import Verdict
from autotune.request import Request, build_space, build_target
from autotune.space.space import Space
from autotune.strategies import build_strategy
from tests.fakes import MACHINE

Speed = Callable[[TrainingSettings], float]


def study(trials: int | None = 8, strategy: str = "staged") -> tuple[Stepwise, Space]:
    request = Request(
        workload="tiny", nproc=2, global_batch=32, max_trials=trials, environment={},
        strategy=strategy,
    )  # fmt: skip
    place = Place(machine=MACHINE)
    target = build_target(request, MACHINE)
    space = build_space(request, place, target)
    spec = build_spec(request, target, space, place)
    return Stepwise(spec, space, build_strategy(spec.search, space, spec.seed)), space


def twice_with_two(settings: TrainingSettings) -> float:
    return 200.0 if settings.accumulation_steps == 2 else 100.0


def alike(_settings: TrainingSettings) -> float:
    return 100.0


class Driver:
    """Launches what a study asks for, with 1 % of noise."""

    def __init__(self, steps: Stepwise, space: Space, speed: Speed, at_once: int = 1) -> None:
        self.steps, self.space, self.speed = steps, space, speed
        self.at_once = at_once
        self.most = 0
        self.alone = True
        self._random = random.Random(0)
        self._started = 0

    def start(self) -> Step | None:
        self._started += 1
        return self.steps.suggest(f"t{self._started}")

    def finish(self, key: str) -> None:
        pending = self.steps.pending[key]
        rate = self.speed(self.space.settings(pending.step.candidate))
        for number in range(5):
            noisy = rate * self._random.lognormvariate(0, 0.01)
            if self.steps.window(key, number, noisy) is not Verdict.GO:
                break
        self.steps.complete(key)

    def run(self) -> None:
        while not self.steps.is_over:
            while len(self.steps.pending) < self.at_once and self.start():
                pass
            phases = [one.step.phase for one in self.steps.pending.values()]
            self.most = max(self.most, len(phases))
            self.alone &= len(phases) < 2 or set(phases) == {Phase.SEARCH}
            for key in list(self.steps.pending)[:1]:
                self.finish(key)


@pytest.mark.parametrize(
    ("at_once", "strategy"), [(1, "staged"), (4, "staged"), (4, "random"), (3, "tpe")]
)
def test_a_gain_is_found_and_confirmed(at_once: int, strategy: str) -> None:
    steps, space = study(trials=8 if strategy == "staged" else 20, strategy=strategy)
    driver = Driver(steps, space, twice_with_two, at_once)
    driver.run()
    decision = steps.decision()
    assert decision.conclusion is Conclusion.IMPROVED
    assert space.settings(decision.candidate).accumulation_steps == 2
    assert (driver.most, driver.alone) == (at_once, True)
    searched = [trial.candidate for trial in steps.trials if trial.phase is Phase.SEARCH]
    assert len(searched) == len(set(searched)) == (8 if strategy == "staged" else 20)


def test_nothing_is_claimed_where_all_are_alike() -> None:
    steps, space = study()
    Driver(steps, space, alike).run()
    assert steps.decision().conclusion is Conclusion.KEEP_DEFAULTS


def test_a_window_counts_once_however_often_it_is_told() -> None:
    steps, _ = study()
    assert steps.suggest("a") is not None
    for _ in range(3):
        steps.window("a", 1, 100.0, loss=2.0)
    steps.complete("a")
    measurement = steps.trials[0].measurement
    assert measurement is not None
    assert (len(measurement.windows), measurement.losses) == (1, (2.0,))


def test_a_trial_that_reports_nothing_is_no_result() -> None:
    steps, _ = study()
    steps.suggest("a")
    steps.complete("a")
    steps.suggest("b")
    steps.complete("b", Outcome.CRASHED)
    assert [trial.outcome for trial in steps.trials] == [Outcome.NO_METRIC, Outcome.CRASHED]


def test_a_study_goes_on_from_its_state() -> None:
    steps, space = study()
    driver = Driver(steps, space, twice_with_two)
    for number in range(1, 7):
        driver.start()
        driver.finish(f"t{number}")
    driver.start()
    again, _ = study()
    again.restore(json.loads(json.dumps(steps.state())))
    assert again.trials == steps.trials
    assert again.pending["t7"].step == steps.pending["t7"].step
    for one in (steps, again):
        one.window("t7", 0, 100.0)
        one.complete("t7")
    following = steps.suggest("t8")
    assert following is not None
    assert again.suggest("t8") == following

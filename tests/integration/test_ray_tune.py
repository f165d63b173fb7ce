"""Whole studies run by Ray Tune, whose trials are formulas."""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ray_hosts import QUIET

pytest.importorskip("ray", reason="Ray (the extra `ray`) is not installed")
os.environ.update(QUIET)

import ray
from ray import cloudpickle, tune

from autotune.model import Conclusion, Outcome, Phase
from autotune.ray import MANY, AutotuneSearcher, settings_of

pytestmark = pytest.mark.filterwarnings("ignore")
CPUS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(
        address="local",
        num_cpus=CPUS,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        log_to_driver=False,
    )
    try:
        yield
    finally:
        ray.shutdown()


def searcher(trials: int) -> AutotuneSearcher:
    return AutotuneSearcher(workload="tiny", ranks_per_node=2, global_batch=32, trials=trials)


def fit(search: AutotuneSearcher, train: Any, folder: Path, *, at_once: int) -> Any:
    return tune.Tuner(
        train,
        tune_config=tune.TuneConfig(
            search_alg=search,
            scheduler=search.scheduler(),
            num_samples=MANY,
            max_concurrent_trials=at_once,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(storage_path=str(folder), name="study", verbose=0),
    ).fit()


def train(config: dict[str, Any]) -> None:
    """Twice as fast with two micro-batches; full sharding fails."""
    settings = settings_of(config)
    if settings.strategy.value == "fsdp_full":
        raise RuntimeError("as the test says")
    rate = 200.0 if settings.accumulation_steps == 2 else 100.0
    for _ in range(5):
        tune.report({"samples_per_second": rate * random.lognormvariate(0, 0.01), "loss": 1.0})


def test_tune_runs_a_study_to_its_confirmed_end(cluster: None, tmp_path: Path) -> None:
    search = searcher(trials=6)
    results = fit(search, train, tmp_path, at_once=2)
    decision = search.decision()
    assert decision.conclusion is Conclusion.IMPROVED, decision
    assert search.best_config()["settings"]["accumulation_steps"] == 2
    trials = search.study.trials
    assert len(results) == len(trials)
    outcomes = {trial.outcome for trial in trials if trial.phase is Phase.SEARCH}
    assert {Outcome.PRUNED, Outcome.CRASHED} <= outcomes
    assert {trial.outcome for trial in trials if trial.phase is Phase.CONFIRM} == {
        Outcome.COMPLETED
    }


class Quick(tune.Trainable):
    """Ends after two windows; each proposal reads the same but for noise."""

    def setup(self, config: dict[str, Any]) -> None:
        self._windows = 0

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        self._windows += 1
        rate = 100.0 * random.lognormvariate(0, 0.01)
        return {"samples_per_second": rate, "done": self._windows == 2}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {}

    def load_checkpoint(self, checkpoint: Any) -> None:
        pass


class Counting(AutotuneSearcher):
    """Notes how many trials are under way."""

    most = 0

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        config = super().suggest(trial_id)
        self.most = max(self.most, len(self.study.pending))
        return config


@pytest.mark.long
def test_sixty_trials_four_at_once_are_each_another(cluster: None, tmp_path: Path) -> None:
    search = Counting(
        workload="tiny", ranks_per_node=2, global_batch=32, trials=60, strategy="grid",
        space="full",
    )  # fmt: skip
    fit(search, tune.with_resources(Quick, {"cpu": 0.5}), tmp_path, at_once=4)
    searched = [t.candidate for t in search.study.trials if t.phase is Phase.SEARCH]
    assert (len(searched), len(set(searched)), search.most) == (60, 60, 4)
    assert search.study.is_over


def test_a_searcher_goes_on_from_what_it_saved(tmp_path: Path) -> None:
    search = searcher(trials=6)
    for number in range(4):
        key = f"t{number}"
        assert isinstance(search.suggest(key), dict)
        search.on_trial_result(key, {"samples_per_second": 100.0 + number, "training_iteration": 1})
        search.on_trial_complete(key, {"samples_per_second": 100.0, "training_iteration": 1})
    search.save(str(tmp_path / "state"))
    again = searcher(trials=6)
    again.restore(str(tmp_path / "state"))
    sent = cloudpickle.loads(cloudpickle.dumps(search))  # as Tune does
    assert sent.study.trials == again.study.trials == search.study.trials
    assert sent.suggest("next") == again.suggest("next") == search.suggest("next")


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_thousand_trials_64_at_once_stay_flat(tmp_path: Path) -> None:
    """The searcher's own time and memory, with as many under way as Tune would have."""
    search = AutotuneSearcher(
        workload="tiny", ranks_per_node=2, global_batch=32, trials=1000, strategy="random",
        space="full",
    )  # fmt: skip
    rng = random.Random(0)
    took: list[float] = []
    sizes: list[int] = []
    waiting: list[str] = []
    number = 0
    while len(search.study.trials) < 1000:
        began = time.process_time()
        config = search.suggest(f"t{number}") if len(waiting) < 64 else None
        took.append(time.process_time() - began)
        if isinstance(config, dict):
            waiting.append(f"t{number}")
            number += 1
            continue
        if config == "FINISHED":
            break
        key = waiting.pop(0)
        result = {"samples_per_second": 100 * rng.lognormvariate(0, 0.03), "training_iteration": 1}
        search.on_trial_complete(key, result)
        sizes.append(resident_bytes())
    assert len(search.study.trials) >= 900
    quarter = len(took) // 4
    assert sum(took[-quarter:]) < 4 * sum(took[:quarter]) + 1.0
    assert sizes[-1] - sizes[len(sizes) // 4] < 200 * 2**20


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")

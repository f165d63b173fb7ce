"""Whether the search stays quick and small through 1,000 trials of Ray Tune, 64 at once.

    python benchmarks/tune_thousand.py

Trials are formulas: each reports three windows and ends. Times are those of this process for
proposing a trial and for taking in its end; its memory is Tune's and the search's together. It
needs the extra `ray`, and about 100 MiB for each trial at once.
"""

import argparse
import hashlib
import os
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ |= {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
}

import ray
from ray import tune
from simulated_studies import table

from autotune.model import Phase
from autotune.ray import MANY, AutotuneSearcher, settings_of

WINDOWS = 3
EDGE = 200
"""Trials at the beginning and at the end, which are compared."""


@dataclass
class Times:
    """Of one kind of call, in seconds."""

    spent_s: list[float] = field(default_factory=list)

    def add(self, began: float) -> None:
        """One that began then, by `time.perf_counter`, and has ended now."""
        self.spent_s.append(time.perf_counter() - began)


class TimedSearcher(AutotuneSearcher):
    """Notes how long it takes, and how large the process is when a trial ends."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.searching, self.comparing, self.completing = Times(), Times(), Times()
        self.resident: list[int] = []

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Only what comes to a trial counts."""
        began = time.perf_counter()
        config = super().suggest(trial_id)
        if isinstance(config, dict):
            is_search = config["phase"] == Phase.SEARCH.value
            (self.searching if is_search else self.comparing).add(began)
        return config

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """As Tune calls it."""
        began = time.perf_counter()
        super().on_trial_complete(trial_id, result, error)
        self.completing.add(began)
        self.resident.append(resident_bytes())


class Formula(tune.Trainable):  # type: ignore[misc]  # Ray has no types
    """A speed that is each configuration's own, with 2 % of noise."""

    def setup(self, config: dict[str, Any]) -> None:
        """Another trial begins."""
        text = f"{settings_of(config)}{sorted(config['environment'].items())}"
        own = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32
        self._rate = 100 * (1 + 0.3 * own) * random.lognormvariate(0, 0.02)
        self._windows = 0

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """In the same process."""
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """A window."""
        self._windows += 1
        return {"samples_per_second": self._rate, "done": self._windows >= WINDOWS}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """Nothing has to be kept; without this Tune starts a new process for each trial."""
        del checkpoint_dir
        return {}

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Nothing was."""


def resident_bytes() -> int:
    """Of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def run(search: AutotuneSearcher, at_once: int, folder: str) -> None:
    """The whole study, by Tune."""
    ray.init(
        address="local", num_cpus=1, include_dashboard=False, log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=80 * 2**20,
    )  # fmt: skip
    try:
        tune.Tuner(
            tune.with_resources(Formula, {"cpu": 1 / (at_once + 1)}),
            tune_config=tune.TuneConfig(
                search_alg=search,
                scheduler=search.scheduler(),
                num_samples=MANY,
                max_concurrent_trials=at_once,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                storage_path=folder,
                name="study",
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        ).fit()
    finally:
        ray.shutdown()


def row(name: str, times: Times) -> list[object]:
    """Milliseconds: median and 99th percentile, of the first ones and of the last ones."""
    first, last = times.spent_s[:EDGE], times.spent_s[-EDGE:]
    figures = [percentile(part, share) for part in (first, last) for share in (0.5, 0.99)]
    return [name, len(times.spent_s), *(f"{1000 * one:.1f}" for one in figures)]


def percentile(values: Sequence[float], share: float) -> float:
    """By the nearest rank."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    """Run the study and print what it took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--strategy", default="grid", help="grid never ends by itself")
    chosen = parser.parse_args()
    search = TimedSearcher(
        workload="tiny", ranks_per_node=2, global_batch=32, trials=chosen.trials,
        strategy=chosen.strategy, space="full",
    )  # fmt: skip
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run(search, chosen.at_once, folder)
    wall_s = time.perf_counter() - began
    print(f"{len(search.study.trials)} trials in {wall_s:.0f} s\n")
    table(
        ["call", "calls", "first p50, ms", "first p99", "last p50", "last p99"],
        [
            row("suggest, of the search", search.searching),
            row("suggest, alone", search.comparing),
            row("complete", search.completing),
        ],
    )
    count = len(search.resident)
    sizes = [search.resident[count * part // 4 - (part > 0)] >> 20 for part in range(5)]
    print("\nMiB resident after 0, 1/4, 1/2, 3/4 and all of the trials:", *sizes)


if __name__ == "__main__":
    main()

"""Where a study's time goes: the share of training steps, and the search's own cost per trial.

python benchmarks/study_share.py                 # a real study on this machine, 5 s trials
python benchmarks/study_share.py --own 10000     # the search's own cost, on a simulated machine
"""

import argparse
import gc
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from simulated_studies import Scene, table

from autotune.executors.local import LocalExecutor
from autotune.executors.simulated import SimulatedExecutor, VirtualClock
from autotune.loop.observer import Observer, TrialStart
from autotune.loop.study import StudyRunner
from autotune.machines import find_place
from autotune.model import (
    Measurement,
    Study,
    StudySpec,
    StudyStatus,
    Trial,
)
from autotune.request import Request, Spaces, build_space, build_target
from autotune.storage import MemoryStore, open_store
from autotune.strategies import build_strategy

WINDOW_S = 1.0
"""Five of them make the trial of 5 s that the goal speaks of."""


def training_s(trial: Trial) -> float:
    """Seconds of training steps in a real trial, its warm-up included."""
    measured = trial.measurement
    if not isinstance(measured, Measurement):
        return 0.0
    return measured.warmup_s + sum(window.seconds for window in measured.windows)


def share(minutes: float) -> None:
    """A real study of so many minutes on this machine."""
    place = find_place("local")
    request = Request()
    target = build_target(request, place.machine)
    space = build_space(request, place, target)
    now = datetime.now(UTC)
    spec = StudySpec(target=target, budget_s=60 * minutes, window_s=WINDOW_S)
    with tempfile.TemporaryDirectory() as folder, LocalExecutor(machine=place.machine) as executor:
        store = open_store(f"sqlite:///{folder}/benchmark.db")
        record = Study(
            run_id="benchmark",
            spec=spec,
            machine=place.machine,
            status=StudyStatus.RUNNING,
            created_at=now,
            updated_at=now,
        )
        store.add_study(record)
        started = time.monotonic()
        StudyRunner(
            study=record,
            space=space,
            strategy=build_strategy("staged", space, 0),
            executor=executor,
            store=store,
            folder=Path(folder),
        ).run()
        wall_s = time.monotonic() - started
        trials = list(store.trials("benchmark"))
    trained = sum(map(training_s, trials))
    whole = sum(trial.seconds for trial in trials)
    table(
        ["trials", "wall, s", "in trials", "in training steps"],
        [[len(trials), f"{wall_s:.0f}", f"{100 * whole / wall_s:.1f} %",
          f"{100 * trained / wall_s:.1f} %"]],
    )  # fmt: skip


class Stopwatch(Observer):
    """CPU time between the end of one trial and the start of the next: nothing is waited for."""

    def __init__(self) -> None:
        self.gaps_s: list[float] = []
        self._ended: float | None = None

    def trial_started(self, start: TrialStart) -> None:
        """The search has decided."""
        del start
        if self._ended is not None:
            self.gaps_s.append(time.process_time() - self._ended)

    def trial_ended(self, trial: Trial) -> None:
        """From here on the search thinks."""
        del trial
        self._ended = time.process_time()


def own(trials: int, strategy_name: str) -> None:
    """The search's own cost on a simulated machine with a large space."""
    scene = Scene.of("additive", space=Spaces(name="full"))
    watch = Stopwatch()
    clock = VirtualClock()
    store = MemoryStore()
    now = datetime.now(UTC)
    record = Study(
        run_id="benchmark",
        spec=StudySpec(target=scene.target, max_trials=trials, search=strategy_name),
        machine=scene.machine,
        status=StudyStatus.RUNNING,
        created_at=now,
        updated_at=now,
    )
    store.add_study(record)
    strategy = build_strategy(strategy_name, scene.space, 0)
    strategy.patience = None
    gc.disable()
    StudyRunner(
        study=record,
        space=scene.space,
        strategy=strategy,
        executor=SimulatedExecutor(scene.landscape, scene.machine, clock=clock),
        store=store,
        folder=Path("unused"),
        observer=watch,
        clock=clock,
    ).run()
    rows: list[list[object]] = []
    # A strategy may end by itself before.
    reached = len(watch.gaps_s)
    for last in sorted({reached, *(n for n in (100, 1000, 10_000) if n < reached)}):
        rows.append([last, *_milliseconds(watch.gaps_s[max(0, last - 100) : last])])
    table(["trials", "median, ms", "p99, ms"], rows)


def _milliseconds(seconds: Sequence[float]) -> list[str]:
    ordered = sorted(seconds)
    high = ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))]
    return [f"{1000 * median(ordered):.1f}", f"{1000 * high:.1f}"]


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--own", type=int, default=0)
    parser.add_argument("--strategy", default="staged")
    chosen = parser.parse_args()
    if chosen.own:
        own(chosen.own, chosen.strategy)
    else:
        share(chosen.minutes)


if __name__ == "__main__":
    main()

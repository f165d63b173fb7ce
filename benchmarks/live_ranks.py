"""Whether trials in live ranks measure what fresh launches do, and what they save.

    python benchmarks/live_ranks.py [--rounds 10] [--workload tiny]

Each layout, in each round and in random order, in ranks that were just forked and in ranks that
have run the trials before. Two Gloo ranks on this machine. Prints a table in Markdown.
"""

import argparse
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from autotune.executors.base import Launch
from autotune.executors.local import LocalExecutor
from autotune.model import (
    DeviceKind,
    Measurement,
    MeasurementPlan,
    Outcome,
    ShardingStrategy,
    TrainingSettings,
    TrialSpec,
)
from autotune.model.protocol import Verdict

FULL, GRAD_OP = ShardingStrategy.FSDP_FULL, ShardingStrategy.FSDP_GRAD_OP
LAYOUTS = {
    "ddp": TrainingSettings(micro_batch=8),
    "ddp, 1 MiB buckets": TrainingSettings(micro_batch=8, bucket_cap_mb=1),
    "ddp, 4 accumulated": TrainingSettings(micro_batch=2, accumulation_steps=4),
    "fsdp_full": TrainingSettings(strategy=FULL, reshard_after_forward=True, micro_batch=8),
    "fsdp_full, prefetch": TrainingSettings(
        strategy=FULL, reshard_after_forward=True, micro_batch=8, forward_prefetch=1
    ),
    "fsdp_grad_op": TrainingSettings(strategy=GRAD_OP, reshard_after_forward=False, micro_batch=8),
}
PLAN = MeasurementPlan(windows=3, window_s=0.3)
STEPS = 4
"""That all trials have for certain: those of the shortest warm-up and one window more."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One launch."""

    overhead_s: float
    """Wall time less training steps."""
    measurement: Measurement

    @property
    def rate(self) -> float:
        """Samples per second."""
        return statistics.median(w.samples_per_second for w in self.measurement.windows)


def main() -> None:
    """Measure in turns, so that a busy moment hits both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--workload", default="tiny")
    options = parser.parse_args()
    found: dict[tuple[str, bool], list[Run]] = {}
    # Two executors: a fresh launch ends the live ranks of its own.
    with LocalExecutor() as forking, LocalExecutor(live=True) as live:
        launch(live, options.workload, LAYOUTS["ddp"], fresh=False)
        for _ in range(options.rounds):
            turns = [(name, fresh) for name in LAYOUTS for fresh in (True, False)]
            for name, fresh in random.sample(turns, len(turns)):
                executor = forking if fresh else live
                run = launch(executor, options.workload, LAYOUTS[name], fresh=fresh)
                found.setdefault((name, fresh), []).append(run)
                how = "fresh" if fresh else "live"
                print(f"{name}, {how}: {run.rate:.1f} samples/s", file=sys.stderr, flush=True)
    show(found)


def launch(
    executor: LocalExecutor, workload: str, settings: TrainingSettings, *, fresh: bool
) -> Run:
    """One trial. Raises RuntimeError if it doesn't complete."""
    spec = TrialSpec(
        trial_id="live", workload=workload, settings=settings, device=DeviceKind.CPU, plan=PLAN
    )
    with tempfile.TemporaryDirectory() as folder:
        trial = Launch(
            spec=spec,
            nodes=1,
            ranks_per_node=2,
            directory=Path(folder),
            time_limit_s=300,
            fresh=fresh,
        )
        began = time.perf_counter()
        end = executor.run(trial, lambda _window: Verdict.GO, Event())
        wall_s = time.perf_counter() - began
    if end.outcome is not Outcome.COMPLETED or not isinstance(end.measurement, Measurement):
        raise RuntimeError(f"{end.outcome}: {end.reason}\n{end.log_tail}")
    steps_s = sum(window.seconds for window in end.measurement.windows)
    return Run(overhead_s=wall_s - end.measurement.warmup_s - steps_s, measurement=end.measurement)


def show(found: dict[tuple[str, bool], list[Run]]) -> None:
    """Live against fresh, round by round."""
    print("| layout | fresh | live | losses, norms | speed, live / fresh | peak memory |")
    print("|---|--:|--:|---|--:|--:|")
    for name in LAYOUTS:
        fresh, live = found[name, True], found[name, False]
        reused = sum(run.measurement.live for run in live)
        print(
            f"| {name} | {len(fresh)} | {reused} "
            f"| {'equal' if len({trained(run) for run in fresh + live}) == 1 else 'differ'} "
            f"| {ratio([r.rate for r in live], [r.rate for r in fresh])} "
            f"| {ratio([peak(r) for r in live], [peak(r) for r in fresh])} |"
        )
    print()
    for is_fresh in (True, False):
        seconds = [r.overhead_s for (_, f), runs in found.items() if f is is_fresh for r in runs]
        how = "fresh" if is_fresh else "live"
        print(f"{how}: {statistics.median(seconds):.3f} s of a trial aren't steps (median)")


def trained(run: Run) -> tuple[float, ...]:
    """Losses and norms of the steps that every trial has, to the last bit."""
    return run.measurement.losses[:STEPS] + run.measurement.gradient_norms[:STEPS]


def peak(run: Run) -> float:
    """Bytes of the larger rank."""
    return float(max(run.measurement.peak_memory_bytes))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Geometric mean over the rounds, with twice its standard error."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    error = 2 * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(statistics.fmean(logs)):.3f} ± {error:.3f}"


if __name__ == "__main__":
    main()

"""How long a trial takes that is neither building its workload nor training steps.

    python benchmarks/trial_overhead.py [--rounds 10]

Two Gloo ranks on this machine, an empty trial and one of the workload `tiny`, started by the local
executor warm and cold and by torchrun, in turns. Prints a table in Markdown.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

from autotune.executors.base import Launch
from autotune.executors.local import RANK_COMMAND, LocalExecutor
from autotune.model import (
    DeviceKind,
    Measurement,
    MeasurementPlan,
    Outcome,
    TrainingSettings,
    TrialSpec,
    encode,
)
from autotune.model.protocol import Finished, Verdict, from_line

EMPTY = Path(__file__).parent / "empty_rank.py"
SPEC = TrialSpec(
    trial_id="overhead",
    workload="tiny",
    settings=TrainingSettings(micro_batch=1),
    device=DeviceKind.CPU,
    plan=MeasurementPlan(min_warmup_steps=1, max_warmup_steps=1, windows=1, window_s=0.05),
)
Starter = Callable[[Path], Measurement]


def main() -> None:
    """Measure in turns, so that a busy moment hits all of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    # The only variable by which torchrun's ranks would differ.
    cores = str(max(1, len(os.sched_getaffinity(0)) // 2))
    os.environ["OMP_NUM_THREADS"] = cores
    empty = (sys.executable, str(EMPTY))
    with (
        LocalExecutor() as warm,
        LocalExecutor(cold=True) as cold,
        LocalExecutor(rank_command=empty) as warm_empty,
        LocalExecutor(rank_command=empty, cold=True) as cold_empty,
    ):
        starters: dict[tuple[str, str], Starter] = {
            ("empty", "warm"): by_executor(warm_empty),
            ("empty", "cold"): by_executor(cold_empty),
            ("empty", "torchrun"): by_torchrun([str(EMPTY)]),
            ("tiny", "warm"): by_executor(warm),
            ("tiny", "cold"): by_executor(cold),
            ("tiny", "torchrun"): by_torchrun(list(RANK_COMMAND[1:])),
        }
        for executor in (warm, warm_empty):  # once for each study, not for each trial
            by_executor(executor)(Path(tempfile.mkdtemp()))
        found: dict[tuple[str, str], list[float]] = {name: [] for name in starters}
        for _ in range(rounds):
            for name, starter in starters.items():
                found[name].append(overhead_s(starter))
    show(found)


def overhead_s(starter: Starter) -> float:
    """Wall time less training steps. Building `tiny` is left in: it takes milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        measurement = starter(Path(folder))
        wall_s = time.perf_counter() - began
    steps_s = measurement.warmup_s + sum(window.seconds for window in measurement.windows)
    return wall_s - steps_s


def by_executor(executor: LocalExecutor) -> Starter:
    """Trials in the executor's own way."""

    def start(folder: Path) -> Measurement:
        launch = Launch(spec=SPEC, nodes=1, ranks_per_node=2, directory=folder, time_limit_s=120)
        end = executor.run(launch, lambda _window: Verdict.GO, Event())
        if end.outcome is not Outcome.COMPLETED or not isinstance(end.measurement, Measurement):
            raise RuntimeError(f"{end.outcome}: {end.reason}\n{end.log_tail}")
        return end.measurement

    return start


def by_torchrun(program: list[str]) -> Starter:
    """The same ranks with torchrun's agent; the result is on their stdout."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]

    def start(folder: Path) -> Measurement:
        spec = folder / "spec.json"
        spec.write_text(json.dumps(encode(SPEC)))
        done = subprocess.run(
            [*command, *program, str(spec)], stdout=subprocess.PIPE, check=True, timeout=120
        )
        messages = [from_line(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
        return next(m.measurement for m in messages if isinstance(m, Finished))

    return start


def show(found: dict[tuple[str, str], list[float]]) -> None:
    """Seconds, and how many times what a warm trial takes."""
    print("| trial | started | minimum, s | median, s | median / warm |")
    print("|---|---|--:|--:|--:|")
    for (trial, how), seconds in found.items():
        median = statistics.median(seconds)
        ratio = median / statistics.median(found[trial, "warm"])
        print(f"| {trial} | {how} | {min(seconds):.3f} | {median:.3f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()

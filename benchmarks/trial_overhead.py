"""How long a trial takes that is neither building its workload nor training steps.

    python benchmarks/trial_overhead.py [--rounds 10] [--ray]

Two Gloo ranks on this machine, an empty trial and one of the workload `tiny`, started by the local
executor warm and cold, by torchrun, and with `--ray` (it needs the extra `ray`) by the Ray executor
and by Ray Tune with Ray Train's TorchTrainer, in turns. Prints a table in Markdown.
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
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event

from autotune.executors.base import Executor, Launch
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
Starter = Callable[[Path], tuple[float, Measurement]]
"""Runs one trial in a folder; returns its wall time in seconds and what it measured."""


def main() -> None:
    """Measure in turns, so that a busy moment hits all of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--ray", action="store_true")
    options = parser.parse_args()
    # The only variable by which torchrun's ranks would differ.
    cores = str(max(1, len(os.sched_getaffinity(0)) // 2))
    os.environ["OMP_NUM_THREADS"] = cores
    with ExitStack() as stack:
        starters = local_starters(stack)
        if options.ray:
            starters |= ray_starters(stack)
        for name, starter in starters.items():
            if name[1] in ("warm", "Ray", "Ray Tune"):  # what a study pays once, not each trial
                overhead_s(starter)
        found: dict[tuple[str, str], list[float]] = {name: [] for name in starters}
        for _ in range(options.rounds):
            for name, starter in starters.items():
                found[name].append(overhead_s(starter))
                print(*name, f"{found[name][-1]:.3f} s", file=sys.stderr, flush=True)
    show(found)


def local_starters(stack: ExitStack) -> dict[tuple[str, str], Starter]:
    """Trial and way to start it, to the starter; `stack` ends what they need."""
    starters: dict[tuple[str, str], Starter] = {}
    for trial, program in (("empty", (sys.executable, str(EMPTY))), ("tiny", RANK_COMMAND)):
        for how in ("warm", "cold"):
            executor = LocalExecutor(rank_command=program, cold=how == "cold")
            starters[trial, how] = timed(by_executor(stack.enter_context(executor)))
        starters[trial, "torchrun"] = timed(by_torchrun(list(program[1:])))
    return starters


def ray_starters(stack: ExitStack) -> dict[tuple[str, str], Starter]:
    """Those of Ray, which is started for all of them."""
    import ray_trials  # noqa: PLC0415 - Ray is an extra, and takes a second to import

    # One node for each executor, which takes all of it, and one for Ray Tune.
    stack.enter_context(ray_trials.cluster(nodes=3))
    loops = {"empty": ray_trials.empty_loop, "tiny": ray_trials.tiny_loop}
    starters: dict[tuple[str, str], Starter] = {
        (trial, "Ray Tune"): partial(ray_trials.run_trial, loops[trial], SPEC) for trial in loops
    }
    for trial, program in (("empty", (sys.executable, str(EMPTY))), ("tiny", RANK_COMMAND)):
        executor = stack.enter_context(ray_trials.executor(program))
        starters[trial, "Ray"] = timed(by_executor(executor))
    return starters


def overhead_s(starter: Starter) -> float:
    """Wall time less training steps. Building `tiny` is left in: it takes milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        wall_s, measurement = starter(Path(folder))
    steps_s = measurement.warmup_s + sum(window.seconds for window in measurement.windows)
    return wall_s - steps_s


def timed(start: Callable[[Path], Measurement]) -> Starter:
    """`start`, with the wall time that it takes."""

    def start_timed(folder: Path) -> tuple[float, Measurement]:
        began = time.perf_counter()
        measurement = start(folder)
        return time.perf_counter() - began, measurement

    return start_timed


def by_executor(executor: Executor) -> Callable[[Path], Measurement]:
    """Trials in the executor's own way."""

    def start(folder: Path) -> Measurement:
        launch = Launch(spec=SPEC, nodes=1, ranks_per_node=2, directory=folder, time_limit_s=120)
        end = executor.run(launch, lambda _window: Verdict.GO, Event())
        if end.outcome is not Outcome.COMPLETED or not isinstance(end.measurement, Measurement):
            raise RuntimeError(f"{end.outcome}: {end.reason}\n{end.log_tail}")
        return end.measurement

    return start


def by_torchrun(program: list[str]) -> Callable[[Path], Measurement]:
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
    for (trial, how), seconds in sorted(found.items(), key=lambda item: item[0][0]):
        median = statistics.median(seconds)
        ratio = median / statistics.median(found[trial, "warm"])
        print(f"| {trial} | {how} | {min(seconds):.3f} | {median:.3f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()

"""How long a trial takes that is neither building its workload nor training steps.

    python benchmarks/trial_overhead.py [--rounds 10] [--ray]

Two Gloo ranks on this machine, an empty trial and one of the workload `tiny`, started by the local
executor warm and cold, by torchrun, and with `--ray` (it needs the extra `ray`) by the Ray executor
and by Ray Tune with Ray Train's TorchTrainer, in turns. Says each figure as it is measured, and at
the end, or when it is stopped, prints a table in Markdown. A trial that takes three minutes,
or fails, is told and left out.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
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

LIMIT_S = 180.0
"""Of a trial, which takes 20 s at most on a quiet machine."""
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
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The only variable by which torchrun's ranks would differ.
    cores = str(max(1, len(os.sched_getaffinity(0)) // 2))
    os.environ["OMP_NUM_THREADS"] = cores
    found: dict[tuple[str, str], list[float]] = {}
    # Ray turns SIGTERM into SystemExit.
    with suppress(KeyboardInterrupt, SystemExit), ExitStack() as stack:
        starters = local_starters(stack)
        if options.ray:
            starters |= ray_starters(stack)
        found |= {name: [] for name in starters}
        for name, starter in starters.items():
            if name[1] in ("warm", "Ray", "Ray Tune"):  # what a study pays once, not each trial
                told(name, starter, "the first, not counted: ")
        for _ in range(options.rounds):
            for name, starter in starters.items():
                found[name] += told(name, starter)
    show(found)


def told(name: tuple[str, str], starter: Starter, what: str = "") -> list[float]:
    """The overhead of one trial, which is said on stderr; nothing if there is none."""
    try:
        seconds = [overhead_s(starter)]
        text = f"{seconds[0]:.3f} s"
    except (RuntimeError, TimeoutError, subprocess.SubprocessError) as error:
        seconds, text = [], f"no figure: {error}"
    print(*name, f"{what}{text}", file=sys.stderr, flush=True)
    return seconds


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
    # Ray is an extra, and takes a second to import.
    import ray_trials  # noqa: PLC0415
    from tune_process import TuneProcess  # noqa: PLC0415

    # One node for each executor, which takes all of it, and one for Ray Tune.
    tune = TuneProcess(stack.enter_context(ray_trials.cluster(nodes=3)))
    stack.callback(tune.close)
    starters: dict[tuple[str, str], Starter] = {
        (trial, "Ray Tune"): partial(tune.run, trial, SPEC, limit_s=LIMIT_S)
        for trial in ("empty", "tiny")
    }
    for trial, program in (("empty", (sys.executable, str(EMPTY))), ("tiny", RANK_COMMAND)):
        executor = stack.enter_context(ray_trials.executor(program))
        starters[trial, "Ray"] = timed(by_executor(executor))
    return starters


def overhead_s(starter: Starter) -> float:
    """Wall time less training steps. Building `tiny` is left in: it takes milliseconds."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
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
        launch = Launch(
            spec=SPEC, nodes=1, ranks_per_node=2, directory=folder, time_limit_s=LIMIT_S
        )
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
        words = [*command, *program, str(spec)]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            try:
                out, _ = process.communicate(timeout=LIMIT_S)
            finally:
                process.terminate()  # which ends its ranks, too
        if process.returncode:
            raise RuntimeError(f"torchrun ended with {process.returncode}")
        messages = [from_line(line) for line in out.splitlines() if line.startswith(b"{")]
        return next(m.measurement for m in messages if isinstance(m, Finished))

    return start


def show(found: dict[tuple[str, str], list[float]]) -> None:
    """Seconds, and how many times what a warm trial takes."""
    print("| trial | started | minimum, s | median, s | median / warm |")
    print("|---|---|--:|--:|--:|")
    for (trial, how), seconds in sorted(found.items(), key=lambda item: item[0][0]):
        if not seconds:
            print(f"| {trial} | {how} | - | - | - |")
            continue
        median, warm = statistics.median(seconds), found[trial, "warm"]
        ratio = f"{median / statistics.median(warm):.1f}" if warm else "-"
        print(f"| {trial} | {how} | {min(seconds):.3f} | {median:.3f} | {ratio} |")


if __name__ == "__main__":
    main()

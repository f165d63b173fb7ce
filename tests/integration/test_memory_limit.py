"""Studies of real trials whose ranks have little memory (setrlimit, ulimit -v).

Run as a program, this file is one of the ranks: `python test_memory_limit.py SPEC`.
"""

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from autotune.cli.controller import EXIT_INTERRUPTED
from autotune.executors.base import Launch, LaunchEnd, OnWindow
from autotune.executors.local import LocalExecutor
from autotune.loop.observer import Observer, TrialStart
from autotune.loop.study import StudyEnd, StudyRunner
from autotune.model import (
    Candidate,
    Machine,
    MeasurementPlan,
    Outcome,
    Phase,
    Study,
    StudySpec,
    StudyStatus,
    Target,
    Trial,
)
from autotune.space.catalogue import load_knobs
from autotune.space.facts import Facts
from autotune.space.memory import Capacity
from autotune.space.memory.predict import CPU_PROCESS_BYTES
from autotune.space.space import Space
from autotune.storage import MemoryStore
from autotune.strategies.base import SearchStrategy

MIB = 2**20
ROOM_BYTES = 220 * MIB
"""Of a rank, beside what the process takes. The baseline, whose micro-batch is 256, needs twice as
much; with 16 micro-batches it is a fifth of it."""
THREADS_BYTES = 200 * MIB
"""Address space that threads reserve once the rank runs: stacks, and a heap each."""
MACHINE = Machine(
    instance="limited", gpus=(), cpu="", cores=2, memory_bytes=64 * 2**30, numa_nodes=1
)
TARGET = Target(instance="limited", nodes=1, ranks_per_node=2, workload="tiny", global_batch=512)
SPACE = Space(load_knobs(), Facts.of(MACHINE, TARGET))
SHORT = MeasurementPlan(min_warmup_steps=1, max_warmup_steps=1, windows=2, max_steps_per_window=1)
AGAIN = (Phase.CONTEND, Phase.CONFIRM)
"""Phases in which what works is launched again."""


def candidate(strategy: str, accumulation: int) -> Candidate:
    wanted = {"strategy": strategy, "accumulation_steps": accumulation}
    return next(
        found
        for found in Space(load_knobs(), SPACE.facts, only=tuple(wanted)).candidates()
        if wanted.items() <= found.items()
    )


FULL, GRAD_OP = candidate("fsdp_full", 1), candidate("fsdp_grad_op", 1)
ACCUMULATED = candidate("ddp", 16)


class InOrder(SearchStrategy):
    """Proposes what it was given, one after the other."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.left = list(candidates)

    def ask(self, beside: Collection[Candidate] = ()) -> Candidate | None:
        return next((one for one in self.left if one not in beside), None)

    def tell(self, candidate: Candidate, value: float | None) -> None:
        self.left = [one for one in self.left if one != candidate]


class ShortTrials(LocalExecutor):
    """Memory is at its peak after a step; it is of no interest how fast steps are."""

    def run(self, launch: Launch, on_window: OnWindow, cancel: Event) -> LaunchEnd:
        spec = replace(launch.spec, plan=SHORT)
        return super().run(replace(launch, spec=spec), on_window, cancel)


class StopsAfterSearch(Observer):
    """Confirming the answer would launch what has been seen to work again and again."""

    def __init__(self) -> None:
        self.cancel = Event()

    def trial_started(self, start: TrialStart) -> None:
        if start.step.phase is Phase.CONFIRM:
            self.cancel.set()


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    """One for all tests: its warm parent takes seconds to start."""
    with ShortTrials(machine=MACHINE, rank_command=(sys.executable, __file__)) as shared:
        yield shared


def run(
    folder: Path, executor: LocalExecutor, room_bytes: int
) -> tuple[StudyEnd, Mapping[Candidate, Outcome]]:
    """A study that is told of `room_bytes`, while its ranks have ROOM_BYTES."""
    store = MemoryStore()
    now = datetime.now(UTC)
    study = Study(
        run_id="r", spec=StudySpec(target=TARGET, window_s=0.01), machine=MACHINE,
        status=StudyStatus.RUNNING, created_at=now, updated_at=now,
    )  # fmt: skip
    store.add_study(study)
    observer = StopsAfterSearch()
    end = StudyRunner(
        study=study,
        space=SPACE,
        strategy=InOrder([FULL, GRAD_OP, ACCUMULATED]),
        executor=executor,
        store=store,
        folder=folder,
        observer=observer,
        cancel=observer.cancel,
        capacity=Capacity(per_rank_bytes=CPU_PROCESS_BYTES + room_bytes, source="a test"),
    ).run()
    return end, outcomes([t for t in store.trials("r") if t.phase not in AGAIN])


def outcomes(trials: Sequence[Trial]) -> dict[Candidate, Outcome]:
    """Of each candidate; none is launched twice."""
    for trial in trials:
        assert trial.outcome in (Outcome.COMPLETED, Outcome.OUT_OF_MEMORY), trial.log_tail
    found = {trial.candidate: trial.outcome for trial in trials}
    assert len(found) == len(trials)
    return found


def test_what_cannot_fit_is_skipped_and_the_rest_is_measured(
    tmp_path: Path, executor: LocalExecutor
) -> None:
    end, found = run(tmp_path, executor, ROOM_BYTES)
    # The baseline is tried whatever is predicted.
    assert found == {
        SPACE.baseline(): Outcome.OUT_OF_MEMORY,
        ACCUMULATED: Outcome.COMPLETED,
    }
    assert set(end.left_out.cannot) == {FULL, GRAD_OP}
    assert end.left_out.describe().startswith("2 candidates not launched, for want of memory")


def test_what_does_not_fit_after_all_is_survived_and_taught(
    tmp_path: Path, executor: LocalExecutor
) -> None:
    end, found = run(tmp_path, executor, 100 * ROOM_BYTES)
    assert found == {
        SPACE.baseline(): Outcome.OUT_OF_MEMORY,
        FULL: Outcome.OUT_OF_MEMORY,
        ACCUMULATED: Outcome.COMPLETED,
    }
    assert set(end.left_out.cannot) == {GRAD_OP}
    assert "ran out of memory" in end.skipped[GRAD_OP]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_run_under_ulimit_says_what_it_left_out(tmp_path: Path) -> None:
    # As much as libraries reserve on this machine, and what the ranks may have beside.
    limit = idle_rank_bytes() + THREADS_BYTES + ROOM_BYTES
    command = (
        sys.executable, "-m", "autotune", "run", "--instance", "local", "--workload", "tiny",
        "--nproc", "2", "--global-batch", str(TARGET.global_batch), "--trials", "8",
        "--only", "strategy,accumulation_steps", "--strategy", "grid", "--window", "0.05s",
    )  # fmt: skip
    environment = {
        "AUTOTUNE_HOME": str(tmp_path), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip
    with subprocess.Popen(
        ["bash", "-c", f'ulimit -v {limit // 1024} && exec "$@"', "bash", *command],
        env={**os.environ, **environment},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as limited:
        assert limited.stdout is not None
        said = ""
        # The rest of the study would be more of the same.
        while "best reading" not in said and (line := limited.stdout.readline()):
            said += line
        limited.send_signal(signal.SIGINT)
        said += limited.communicate()[0]
    assert limited.returncode == EXIT_INTERRUPTED, said
    assert "baseline  defaults  out_of_memory" in said
    assert re.search(r"\d+ candidates? not launched, for want of memory", said), said
    assert "Traceback" not in said


def idle_rank_bytes() -> int:
    """Address space of a process that has imported what a rank needs."""
    program = (
        "from autotune.trainers.preload import preload\n"
        "preload()\n"
        "print(open('/proc/self/statm').read().split()[0])\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    return int(output) * resource.getpagesize()


def _be_a_rank(spec: str) -> None:
    from autotune.trainers import rank

    # Threads take address space of their own, and machines differ in how many there are.
    os.environ["OMP_NUM_THREADS"] = "1"
    # On top of what libraries have reserved by now, which machines differ in as well.
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + THREADS_BYTES + ROOM_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    rank.main([spec])


if __name__ == "__main__":
    _be_a_rank(sys.argv[1])

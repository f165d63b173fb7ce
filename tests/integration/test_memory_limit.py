"""Studies of real trials whose ranks have little memory (ulimit -v).

Run as a program, this file is one of the ranks: `python test_memory_limit.py LIMIT_BYTES SPEC`.
"""

import os
import resource
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autotune.executors.local import LocalExecutor
from autotune.loop import plan
from autotune.loop.study import StudyEnd, StudyRunner
from autotune.model import (
    Candidate,
    Conclusion,
    DeviceKind,
    Machine,
    MeasurementPlan,
    Outcome,
    Study,
    StudySpec,
    StudyStatus,
    Target,
    Trial,
)
from autotune.space.catalogue import load_knobs
from autotune.space.facts import Facts
from autotune.space.memory import Capacity, capacity_of
from autotune.space.space import Space
from autotune.storage import MemoryStore
from autotune.strategies.base import SearchStrategy

MIB = 2**20
LIMIT_BYTES = 1160 * MIB
"""A rank of the baseline needs some 1350 MiB of address space, one that accumulates 1080 MiB."""
MACHINE = Machine(
    instance="limited", gpus=(), cpu="", cores=2, memory_bytes=64 * 2**30, numa_nodes=1
)
TARGET = Target(instance="limited", nodes=1, ranks_per_node=2, workload="tiny", global_batch=320)
SPACE = Space(load_knobs(), Facts.of(MACHINE, TARGET))


def candidate(strategy: str, accumulation: int) -> Candidate:
    wanted = {"strategy": strategy, "accumulation_steps": accumulation}
    return next(
        found
        for found in Space(load_knobs(), SPACE.facts, only=tuple(wanted)).candidates()
        if wanted.items() <= found.items()
    )


FULL, GRAD_OP = candidate("fsdp_full", 1), candidate("fsdp_grad_op", 1)
ACCUMULATED = candidate("ddp", 8)


# The limit has to lie between layouts that differ by less than what libraries reserve of address
# space, which other machines' libraries may do differently.
pytestmark = pytest.mark.long


class InOrder(SearchStrategy):
    """Proposes what it was given, one after the other."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.left = list(candidates)

    def ask(self) -> Candidate | None:
        return self.left[0] if self.left else None

    def tell(self, candidate: Candidate, value: float | None) -> None:
        self.left = [one for one in self.left if one != candidate]


def run(folder: Path, capacity: Capacity | None) -> tuple[StudyEnd, list[Trial]]:
    store = MemoryStore()
    now = datetime.now(UTC)
    study = Study(
        run_id="r", spec=StudySpec(target=TARGET), machine=MACHINE, status=StudyStatus.RUNNING,
        created_at=now, updated_at=now,
    )  # fmt: skip
    store.add_study(study)
    command = (sys.executable, __file__, str(LIMIT_BYTES))
    # Cold: a forked rank has its parent's address space on top, which the limit counts.
    with LocalExecutor(machine=MACHINE, rank_command=command, cold=True) as executor:
        end = StudyRunner(
            study=study,
            space=SPACE,
            strategy=InOrder([FULL, GRAD_OP, ACCUMULATED]),
            executor=executor,
            store=store,
            folder=folder,
            measurement=MeasurementPlan(warmup_steps=1, windows=1, window_s=0.01),
            capacity=capacity,
        ).run()
    return end, list(store.trials("r"))


def outcomes(trials: Sequence[Trial]) -> dict[Candidate, Outcome]:
    for trial in trials:
        assert trial.outcome in (Outcome.COMPLETED, Outcome.OUT_OF_MEMORY), trial.log_tail
    return {trial.candidate: trial.outcome for trial in trials}


@pytest.fixture(autouse=True)
def _no_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "ROUNDS", 0)


def test_what_cannot_fit_is_skipped_and_the_study_concludes(tmp_path: Path) -> None:
    limited = capacity_of(MACHINE, DeviceKind.CPU, 2, address_space_bytes=LIMIT_BYTES)
    end, trials = run(tmp_path, limited)
    # The baseline is tried whatever is predicted.
    found = outcomes(trials)
    assert found[SPACE.baseline()] is Outcome.OUT_OF_MEMORY
    assert FULL not in found
    assert GRAD_OP not in found
    assert {FULL, GRAD_OP} <= set(end.left_out.cannot)
    assert "not launched, for want of memory" in end.left_out.describe()
    assert end.decision.conclusion in (Conclusion.UNCONFIRMED, Conclusion.NO_CANDIDATE)


def test_what_does_not_fit_after_all_is_survived_and_taught(tmp_path: Path) -> None:
    # The machine has room for all of them; nobody was told of the limit.
    end, trials = run(tmp_path, None)
    found = outcomes(trials)
    assert found[SPACE.baseline()] is Outcome.OUT_OF_MEMORY
    assert found[FULL] is Outcome.OUT_OF_MEMORY
    assert [trial.candidate for trial in trials].count(FULL) == 1
    assert "ran out of memory" in end.skipped[GRAD_OP]
    # Whether the least demanding one has room depends on how much address space the libraries
    # reserve on this machine.
    assert end.decision.conclusion in (Conclusion.UNCONFIRMED, Conclusion.NO_CANDIDATE)


def _be_a_rank(limit_bytes: int, spec: str) -> None:
    # Threads take address space of their own, and machines differ in how many there are.
    os.environ["OMP_NUM_THREADS"] = "1"
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))

    from autotune.trainers import rank

    rank.main([spec])


if __name__ == "__main__":
    _be_a_rank(int(sys.argv[1]), sys.argv[2])

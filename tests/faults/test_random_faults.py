"""Faults of all kinds at random: nothing is left behind, and the answer is the same.

A candidate's own faults (a crash with children, garbage for messages, an exit without a result)
come with its settings; the machine's (ranks killed by somebody, their parent killed, a full disk, a
taken port) hit any trial, at most two in a row. A fault of its own that hit the best candidate at
random would rightly change the answer, so there is none.
"""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.studies import Faulty, Sample

MACHINE = ("killed", "terminated", "orphaned", "disk_full", "port_taken")
VALUES = {
    "accumulation_steps=16": "crash",
    "accumulation_steps=8": "leave",
    "activation_checkpointing=every_block": "garbage",
}
BEST = 2
"""Accumulation steps of the fastest candidates."""
STEP_S = {
    "accumulation_steps=1": 0.045,
    "accumulation_steps=2": 0.030,
    "accumulation_steps=4": 0.042,
    "activation_checkpointing=every_second_block": 0.006,
}
STUDY = (
    "--instance", "local", "--nproc", "2", "--window", "0.05s", "--strategy", "grid",
    "--set", "strategy=ddp", "--only", "accumulation_steps,activation_checkpointing",
    "--share-machine",
)  # fmt: skip


def plan(seed: int, most: int = 100) -> dict[str, str]:
    """Which trials the machine makes fail, by number: a fifth, never three in a row."""
    rng = random.Random(seed)
    faults: dict[str, str] = {}
    for number in range(most):
        before = {str(number - 1), str(number - 2)} <= faults.keys()
        if rng.random() < 0.25 and not before:
            faults[str(number)] = rng.choice(MACHINE)
    return faults


def study(faulty: Faulty, seed: int, *, faults: bool, trials: int = 15) -> dict[str, Any]:
    return faulty.run(
        *STUDY, "--trials", str(trials), "--seed", str(seed), "--output", "best.yaml",
        chaos={
            "step_s": STEP_S, "values": VALUES, "trials": plan(seed) if faults else {},
        },
        expect=0,
    )  # fmt: skip


def check_nothing_is_left(faulty: Faulty) -> None:
    faulty.wait_until_alone()
    data = {"data/autotune.db", "data/autotune.db-wal", "data/autotune.db-shm", "data/machine.lock"}
    left = {f for f in faulty.files() if not f.endswith("/lock")} - data
    assert left == {"best.yaml", "stderr.txt"}
    quarter = len(faulty.samples) // 4
    early, late = faulty.samples[quarter : 2 * quarter], faulty.samples[-quarter:]
    assert _least(late).descriptors <= _least(early).descriptors
    assert _least(late).memory_bytes <= _least(early).memory_bytes + 32 * 2**20


def _least(samples: list[Sample]) -> Sample:
    """Between trials."""
    return Sample(
        descriptors=min(sample.descriptors for sample in samples),
        memory_bytes=min(sample.memory_bytes for sample in samples),
    )


def answer(document: dict[str, Any]) -> tuple[str, object]:
    return document["conclusion"], document["best"]["settings"]["batch"]["accumulation_steps"]


@pytest.mark.timeout(600)
def test_a_study_with_a_third_of_its_trials_faulty(tmp_path: Path) -> None:
    faulty = Faulty(path=tmp_path)
    found = study(faulty, 1, faults=True, trials=8)
    assert answer(found) == ("improved", BEST)
    trials = faulty.trials()
    outcomes = Counter(str(trial.outcome) for trial in trials)
    failed = len(trials) - outcomes["completed"] - outcomes["pruned"]
    assert len(trials) >= 20
    assert failed >= len(trials) / 4, outcomes
    assert {"preempted", "environment", "crashed"} <= outcomes.keys()
    check_nothing_is_left(faulty)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_five_hundred_trials_with_a_third_of_them_faulty(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(30):
        (tmp_path / f"{seed}").mkdir()
        (tmp_path / f"{seed}-quiet").mkdir()
        faulty = Faulty(path=tmp_path / f"{seed}")
        quiet = Faulty(path=tmp_path / f"{seed}-quiet")
        assert answer(study(faulty, seed, faults=True)) == answer(study(quiet, seed, faults=False))
        outcomes += Counter(str(trial.outcome) for trial in faulty.trials())
        check_nothing_is_left(faulty)
        if outcomes.total() >= 500:
            break
    assert outcomes.total() >= 500
    failed = outcomes.total() - outcomes["completed"] - outcomes["pruned"]
    assert failed >= outcomes.total() / 3, outcomes

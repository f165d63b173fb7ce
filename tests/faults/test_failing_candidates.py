"""Candidates that fail by themselves: the study says how, and what to do, or goes on without."""

from pathlib import Path

import pytest

from autotune.model import Phase
from tests.faults.studies import Faulty

STUDY = (
    "--instance", "local", "--nproc", "2", "--global-batch", "8", "--window", "0.05s",
    "--strategy", "grid", "--share-machine", "--output", "best.yaml",
)  # fmt: skip
STEP_S = {"accumulation_steps=1": 0.05}
STEPS = ("--set", "strategy=ddp", "--only", "accumulation_steps")


def test_all_candidates_run_out_of_memory(tmp_path: Path) -> None:
    faulty = Faulty(path=tmp_path)
    answer = faulty.run(
        *STUDY, "--trials", "20", chaos={"trials": {"*": "out_of_memory"}}, expect=3
    )
    assert answer["conclusion"] == "no_candidate"
    assert "out of memory" in answer["reason"]
    assert "take a smaller model or --global-batch" in answer["reason"]
    assert answer["best"] is None
    assert not (tmp_path / "best.yaml").exists()
    trials = faulty.trials()
    assert {(trial.outcome, trial.failed_rank) for trial in trials} == {("out_of_memory", 1)}
    assert len(trials) <= 10
    faulty.wait_until_alone()


def test_the_loss_is_not_a_number_from_the_second_step_on(tmp_path: Path) -> None:
    faulty = Faulty(path=tmp_path)
    answer = faulty.run(*STUDY, "--trials", "5", chaos={"trials": {"*": "nan"}}, expect=3)
    assert answer["conclusion"] == "no_candidate"
    assert "the baseline itself doesn't train" in answer["reason"]
    assert "learning rate" in answer["reason"]
    assert [trial.outcome for trial in faulty.trials()] == ["diverged"]


def test_losses_that_are_not_finite_cost_a_candidate_alone(tmp_path: Path) -> None:
    """NaN from the second step on, on both ranks; infinity in the second one, on rank 1 alone."""
    faulty = Faulty(path=tmp_path)
    values = {"accumulation_steps=2": "nan", "accumulation_steps=4": "inf_on_rank_1"}
    answer = faulty.run(
        *STUDY, *STEPS, "--trials", "2", chaos={"values": values, "step_s": STEP_S}, expect=0
    )
    assert answer["conclusion"] == "keep_defaults"
    ends = {
        trial.settings.accumulation_steps: trial
        for trial in faulty.trials()
        if trial.phase is Phase.SEARCH
    }
    assert {steps: trial.outcome for steps, trial in ends.items()} == {
        2: "diverged", 4: "diverged",
    }  # fmt: skip
    assert "the loss of step 1 is nan" in ends[2].reason
    assert "the loss of step 1 is inf on rank 1" in ends[4].reason


@pytest.mark.parametrize(
    ("fault", "outcome", "times"),
    [
        ("disk_full", "environment", 3),
        pytest.param("killed", "preempted", 9, marks=pytest.mark.long),
    ],
)
def test_a_machine_that_fails_every_trial_ends_the_study_and_is_named(
    tmp_path: Path, fault: str, outcome: str, times: int
) -> None:
    faulty = Faulty(path=tmp_path)
    answer = faulty.run(*STUDY, "--trials", "5", chaos={"trials": {"*": fault}}, expect=1)
    assert [trial.outcome for trial in faulty.trials()] == [outcome] * times
    assert (
        f"{times} trials ended as {outcome}, the last one, trial {times - 1}," in answer["reason"]
    )
    assert "/trial-" in answer["reason"], "the log is named"
    said = (tmp_path / "stderr.txt").read_text()
    assert "stopped; once that is mended: autotune resume" in said

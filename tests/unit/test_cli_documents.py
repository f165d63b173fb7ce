"""Trials as JSON: what `autotune show` says of them beside what is stored."""

from datetime import UTC, datetime

import pytest

from autotune.cli.documents import trial_document
from autotune.model import (
    Outcome,
    Phase,
    Study,
    StudySpec,
    StudyStatus,
    TrainingSettings,
    Trial,
    Window,
)
from tests.fakes import MACHINE, measurement
from tests.unit.test_loop import TARGET

NOW = datetime(2026, 1, 2, tzinfo=UTC)
STUDY = Study(
    run_id="r",
    spec=StudySpec(target=TARGET, max_trials=1),
    machine=MACHINE,
    status=StudyStatus.RUNNING,
    created_at=NOW,
    updated_at=NOW,
)


def trial(outcome: Outcome, *seconds: float) -> Trial:
    """One with windows of 10 steps and 320 samples that took so long."""
    windows = [
        Window(index=index, steps=10, samples=320, seconds=took)
        for index, took in enumerate(seconds)
    ]
    return Trial(
        run_id="r",
        number=0,
        phase=Phase.SEARCH,
        candidate={},
        settings=TrainingSettings(micro_batch=1),
        environment={},
        outcome=outcome,
        started_at=NOW,
        seconds=1.0,
        reason="",
        failed_rank=None,
        log_path="",
        log_tail="",
        measurement=measurement(windows, {}),
    )


def test_a_score_is_shown_with_what_it_is_made_of() -> None:
    shown = trial_document(trial(Outcome.COMPLETED, 1.0, 1.01, 0.99, 1.0, 2.0), STUDY)["score"]
    assert shown["samples_per_second"] == 320.0
    assert shown["tail"] == pytest.approx(1 / 1.604)
    assert shown["allocation"] == 1.0
    assert shown["stability"] == pytest.approx(shown["tail"] * shown["allocation"])
    assert shown["value"] == pytest.approx(320 * shown["stability"])
    assert shown["disturbed_windows"] == [4]


def test_a_trial_that_does_not_count_has_no_score() -> None:
    assert trial_document(trial(Outcome.PRUNED, 1.0), STUDY)["score"] is None

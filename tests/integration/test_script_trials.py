"""Trials of a user's script: how they are measured, and how each kind of failure ends."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from autotune.executors.base import Launch, LaunchEnd
from autotune.executors.local import LocalExecutor
from autotune.model import (
    DeviceKind,
    Measurement,
    MeasurementPlan,
    Outcome,
    Samples,
    Script,
    TrainingSettings,
    TrialSpec,
    Window,
)
from autotune.model.protocol import Verdict

FOLDER = Path(__file__).parents[1] / "scripts"
TOLD = ("--micro-batch", "{micro_batch}", "--accumulate", "{accumulation_steps}")
Run = Callable[..., LaunchEnd]


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    with LocalExecutor() as executor:
        yield executor


@pytest.fixture
def run(executor: LocalExecutor, tmp_path: Path) -> Run:
    def launch(
        *arguments: str,
        program: str = "train.py",
        accumulation_steps: int = 1,
        samples: Samples = Samples.COUNTED,
        verdict: Verdict = Verdict.GO,
        windows: list[Window] | None = None,
    ) -> LaunchEnd:
        script = Script(program=program, arguments=arguments, folder=str(FOLDER), samples=samples)
        spec = TrialSpec(
            trial_id="t", workload="train.py#0", script=script, device=DeviceKind.CPU,
            settings=TrainingSettings(
                micro_batch=8 // accumulation_steps, accumulation_steps=accumulation_steps
            ),
            plan=MeasurementPlan(max_warmup_steps=8, windows=3, window_s=0.01),
        )  # fmt: skip

        def on_window(window: Window) -> Verdict:
            if windows is not None:
                windows.append(window)
            return verdict

        with pytest.MonkeyPatch.context() as patch:
            # It changes from test to test, and another environment is another warm parent.
            patch.delenv("PYTEST_CURRENT_TEST")
            return executor.run(
                Launch(spec=spec, nodes=1, ranks_per_node=2, directory=tmp_path / "trial",
                       time_limit_s=90), on_window, Event(),
            )  # fmt: skip

    return launch


def measured(end: LaunchEnd) -> Measurement:
    assert isinstance(end.measurement, Measurement), end
    return end.measurement


def test_a_script_is_measured_and_ended_like_a_trial(run: Run, tmp_path: Path) -> None:
    windows: list[Window] = []
    end = run(*TOLD, "--out", str(tmp_path / "seen"), accumulation_steps=2, windows=windows)
    assert end.outcome is Outcome.COMPLETED, end
    found = measured(end)
    assert len(windows) == 3
    assert found.windows == tuple(windows)
    # 4 rows x 2 micro-batches x 2 ranks, counted and asked for alike.
    assert all(window.samples == 16 * window.steps for window in windows)
    seen = found.effective
    assert (seen["samples_read"], seen["micro_batch"], seen["accumulation_steps"]) == (16, 4, 2)
    assert (seen["strategy"], seen["loss_source"], found.parameters) == ("ddp", "seen", 17)
    steps = found.warmup_steps + sum(window.steps for window in windows)
    assert len(found.losses) == steps
    ranks = [json.loads((tmp_path / f"seen.{rank}").read_text()) for rank in (0, 1)]
    # Its own `finally` ran on all ranks, and it was launched as torchrun would.
    assert [one["environment"]["RANK"] for one in ranks] == ["0", "1"]
    assert all(one["environment"]["WORLD_SIZE"] == "2" and one["elastic"] for one in ranks)
    assert end.left_behind == ""


def test_losses_don_t_depend_on_how_a_batch_is_divided(run: Run) -> None:
    whole, halves = (measured(run(*TOLD, accumulation_steps=n)).losses for n in (1, 2))
    assert halves[:3] == pytest.approx(whole[:3], rel=1e-4)
    undivided = measured(run(*TOLD, "--do", "undivided", accumulation_steps=2)).losses
    assert undivided[0] == pytest.approx(2 * whole[0], rel=1e-4)


def test_it_stops_when_it_has_lost(run: Run) -> None:
    end = run(*TOLD, verdict=Verdict.STOP)
    assert end.outcome is Outcome.PRUNED
    assert len(measured(end).windows) == 1


def test_arguments_arrive_as_they_are(run: Run, tmp_path: Path) -> None:
    words = [
        "two words",
        'it\'s "quoted"',
        '{"a": {"b": 1}}',
        "{unknown}",
        "naïve 数",
        "$HOME\\n",
        "",
    ]
    end = run(*TOLD, "--out", str(tmp_path / "seen"), *words, "{{micro_batch}}")
    assert end.outcome is Outcome.COMPLETED, end
    seen = json.loads((tmp_path / "seen.0").read_text())
    assert seen["words"] == [*words, "{micro_batch}"]


def test_an_exception_for_the_end_can_be_swallowed(run: Run) -> None:
    assert run(*TOLD, "--do", "swallow").outcome is Outcome.COMPLETED


def test_processes_that_load_data_are_counted_and_ended(run: Run) -> None:
    end = run(*TOLD, "--workers", "1")
    assert end.outcome is Outcome.COMPLETED, end
    assert measured(end).effective["samples_read"] == 16
    assert "process" not in end.left_behind


def test_100_mb_of_output_are_no_trouble(run: Run) -> None:
    end = run(*TOLD, "--do", "print")
    assert end.outcome is Outcome.COMPLETED, end
    assert os.stat(end.log_path).st_blocks * 512 < 32 * 2**20


@pytest.mark.parametrize(
    ("arguments", "outcome", "reason"),
    [
        (("--do", "bug"), Outcome.CRASHED, r"no attribute 'missing' \(.*train\.py:\d+, in train\)"),
        (("--do", "nan"), Outcome.DIVERGED, "the loss of step 2 is nan on rank 0"),
        (("--do", "exit"), Outcome.NO_METRIC, "train.py ended without an optimizer step"),
        (("--do", "exit 3"), Outcome.CRASHED, r"SystemExit: 3 \(.*train\.py:\d+"),
        (("--do", "spawn"), Outcome.NO_METRIC, "started processes of its own"),
        (("--steps", "3"), Outcome.NO_METRIC, "ended after 3 optimizer steps, before its windows"),
        (("--micro-batch", "3"), Outcome.INVALID_KNOB, "reads 6 samples .* global batch is 16"),
        (("--no-such-flag",), Outcome.CRASHED, "SystemExit: 2"),
    ],
)
def test_what_goes_wrong_is_said(
    run: Run, arguments: tuple[str, ...], outcome: Outcome, reason: str
) -> None:
    end = run(*TOLD, *arguments)
    assert end.outcome is outcome, end

    assert re.search(reason, end.reason), end.reason

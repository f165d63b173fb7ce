"""The local executor with the rank program that is shipped."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

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
    Window,
)
from autotune.model.protocol import Verdict

DDP = TrainingSettings(micro_batch=4)
FSDP_FULL = TrainingSettings(
    strategy=ShardingStrategy.FSDP_FULL, reshard_after_forward=True, micro_batch=4
)


@pytest.fixture(scope="module")
def warm() -> Iterator[LocalExecutor]:
    with LocalExecutor() as executor:
        yield executor


def run(
    executor: LocalExecutor, folder: Path, settings: TrainingSettings
) -> tuple[Measurement, list[Window]]:
    windows: list[Window] = []

    def on_window(window: Window) -> Verdict:
        windows.append(window)
        return Verdict.GO

    spec = TrialSpec(
        trial_id="t",
        workload="tiny",
        settings=settings,
        device=DeviceKind.CPU,
        plan=MeasurementPlan(
            min_warmup_steps=1,
            max_warmup_steps=1,
            windows=2,
            max_steps_per_window=1,
            communication=True,
        ),
    )
    launch = Launch(spec=spec, nodes=1, ranks_per_node=2, directory=folder, time_limit_s=60)
    with pytest.MonkeyPatch.context() as patch:
        # It changes from test to test, and another environment is another warm parent.
        patch.delenv("PYTEST_CURRENT_TEST")
        end = executor.run(launch, on_window, Event())
    assert end.outcome is Outcome.COMPLETED, f"{end.reason}\n{end.log_tail}"
    assert end.measurement is not None
    return end.measurement, windows


@pytest.mark.parametrize("settings", [DDP, FSDP_FULL], ids=["ddp", "fsdp_full"])
def test_two_ranks_train(warm: LocalExecutor, tmp_path: Path, settings: TrainingSettings) -> None:
    measurement, windows = run(warm, tmp_path / "trial", settings)
    assert list(measurement.windows) == windows
    assert measurement.effective["strategy"] == settings.strategy.value
    assert measurement.communication_share is not None
    # Under DDP it is a difference, which may be lost in the noise of single steps.
    least = 1e-4 if settings.strategy.is_fsdp else 0.0
    assert least <= measurement.communication_share < 1


@pytest.mark.parametrize("settings", [DDP, FSDP_FULL], ids=["ddp", "fsdp_full"])
def test_forked_ranks_compute_what_fresh_interpreters_do(
    warm: LocalExecutor, tmp_path: Path, settings: TrainingSettings
) -> None:
    forked, _ = run(warm, tmp_path / "warm", settings)
    with LocalExecutor(cold=True) as cold:
        fresh, _ = run(cold, tmp_path / "cold", settings)
    assert forked.losses == fresh.losses
    assert len(forked.losses) == 3
    assert forked.gradient_norms == fresh.gradient_norms
    assert forked.effective == fresh.effective
    assert forked.versions == fresh.versions

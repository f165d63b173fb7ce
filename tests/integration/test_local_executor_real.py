"""The local executor with the rank program that is shipped."""

from pathlib import Path
from threading import Event

import pytest

from autotune.executors.base import Launch
from autotune.executors.local import LocalExecutor
from autotune.model import (
    DeviceKind,
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


@pytest.mark.parametrize("settings", [DDP, FSDP_FULL], ids=["ddp", "fsdp_full"])
def test_two_ranks_train(tmp_path: Path, settings: TrainingSettings) -> None:
    windows: list[Window] = []

    def on_window(window: Window) -> Verdict:
        windows.append(window)
        return Verdict.GO

    spec = TrialSpec(
        trial_id="t",
        workload="tiny",
        settings=settings,
        device=DeviceKind.CPU,
        plan=MeasurementPlan(warmup_steps=1, windows=2, window_s=0.05),
    )
    launch = Launch(
        spec=spec, nodes=1, ranks_per_node=2, directory=tmp_path / "trial", time_limit_s=60
    )
    with LocalExecutor() as executor:
        end = executor.run(launch, on_window, Event())
    assert end.outcome is Outcome.COMPLETED, f"{end.reason}\n{end.log_tail}"
    assert end.measurement is not None
    assert list(end.measurement.windows) == windows
    assert end.measurement.effective["strategy"] == settings.strategy.value

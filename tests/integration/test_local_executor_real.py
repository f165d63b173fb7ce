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


@pytest.fixture(scope="module", params=[DDP, FSDP_FULL], ids=["ddp", "fsdp_full"])
def settings(request: pytest.FixtureRequest) -> TrainingSettings:
    found: TrainingSettings = request.param
    return found


@pytest.fixture(scope="module")
def forked(
    warm: LocalExecutor, settings: TrainingSettings, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Measurement, list[Window]]:
    return run(warm, tmp_path_factory.mktemp("forked") / "trial", settings)


def test_two_ranks_train(
    forked: tuple[Measurement, list[Window]], settings: TrainingSettings
) -> None:
    measurement, windows = forked
    assert list(measurement.windows) == windows
    assert measurement.effective["strategy"] == settings.strategy.value
    assert measurement.communication_share is not None
    # Under DDP it is a difference, which may be lost in the noise of single steps.
    least = 1e-4 if settings.strategy.is_fsdp else 0.0
    assert least <= measurement.communication_share < 1


def test_forked_ranks_compute_what_fresh_interpreters_do(
    forked: tuple[Measurement, list[Window]], settings: TrainingSettings, tmp_path: Path
) -> None:
    here, _ = forked
    with LocalExecutor(cold=True) as cold:
        fresh, _ = run(cold, tmp_path / "cold", settings)
    assert here.losses == fresh.losses
    assert len(here.losses) == 3
    assert here.gradient_norms == fresh.gradient_norms
    assert here.effective == fresh.effective
    assert here.versions == fresh.versions

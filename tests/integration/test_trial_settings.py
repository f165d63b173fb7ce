"""Every setting of a trial, on real ranks: it is in effect, and the model trains the same."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from autotune.executors.base import Launch
from autotune.executors.local import LocalExecutor
from autotune.model import (
    DeviceKind,
    Measurement,
    MeasurementPlan,
    Outcome,
    TrainingSettings,
    TrialSpec,
    decode,
)
from autotune.model.protocol import Verdict
from autotune.scoring.parity import disparity

FULL = {"strategy": "fsdp_full", "reshard_after_forward": True}
CASES: dict[str, dict[str, Any]] = {
    "ddp": {"gradient_as_bucket_view": True, "static_graph": True, "bucket_cap_mb": 1},
    "fp16": {"communication_hook": "fp16"},
    "power_sgd": {"communication_hook": "power_sgd"},
    "bfloat16": {"compute_dtype": "bfloat16"},
    "groups": {**FULL, "blocks_per_group": 2, "reduce_dtype": "bfloat16"},
    "prefetch": {**FULL, "forward_prefetch": 1, "backward_prefetch": 1},
    "sum": {**FULL, "force_sum_reduction": True},
    "kept": {**FULL, "reshard_after_backward": False, "accumulation_steps": 4, "micro_batch": 4},
}
EXACT = {"ddp", "prefetch", "sum", "kept"}
"""Those that change at most the order of sums."""


Run = Callable[..., Measurement]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with LocalExecutor() as executor:
        yield partial(run_trial, executor)


def run_trial(
    executor: LocalExecutor, folder: Path, settings: dict[str, Any], **environment: str
) -> Measurement:
    spec = TrialSpec(
        trial_id="t",
        workload="tiny",
        settings=decode(TrainingSettings, {"micro_batch": 16, **settings}),
        environment=environment,
        device=DeviceKind.CPU,
        plan=MeasurementPlan(
            min_warmup_steps=2, max_warmup_steps=2, windows=1, max_steps_per_window=1
        ),
    )
    launch = Launch(spec=spec, nodes=1, ranks_per_node=2, directory=folder, time_limit_s=120)
    with pytest.MonkeyPatch.context() as patch:
        # It changes from test to test, and another environment is another warm parent.
        patch.delenv("PYTEST_CURRENT_TEST")
        end = executor.run(launch, lambda _: Verdict.GO, Event())
    assert end.outcome is Outcome.COMPLETED, end
    assert end.measurement is not None
    return end.measurement


@pytest.fixture(scope="module")
def baseline(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Measurement:
    return run(tmp_path_factory.mktemp("baseline"), {})


@pytest.fixture(scope="module")
def half(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Measurement:
    return run(tmp_path_factory.mktemp("half"), CASES["fp16"])


@pytest.mark.parametrize("name", CASES)
def test_a_setting_is_in_effect(
    run: Run, name: str, baseline: Measurement, half: Measurement, tmp_path: Path
) -> None:
    found = half if name == "fp16" else run(tmp_path, CASES[name])
    for field, value in CASES[name].items():
        assert found.effective[field] == value
    different = disparity(found, baseline, DeviceKind.CPU)
    assert (different == "") or name not in EXACT
    # Lossy ones still train: the loss stays near the exact one.
    assert found.losses[2] == pytest.approx(baseline.losses[2], rel=0.02)


def test_collectives_of_a_step_are_counted_with_their_bytes(
    baseline: Measurement, half: Measurement
) -> None:
    gradients_bytes = baseline.parameters * 4
    assert baseline.effective["collective.all_reduce_bytes"] == gradients_bytes
    assert half.effective["collective.all_reduce_bytes"] == gradients_bytes // 2


def test_what_nobody_reads_is_seen_to_do_nothing(run: Run, tmp_path: Path) -> None:
    found = run(tmp_path, {}, NCCL_NTHREADS="256", OMP_NUM_THREADS="2", TORCH_SHOW="1").effective
    assert found["uptake.NCCL_NTHREADS"] == "not seen"
    assert found["uptake.OMP_NUM_THREADS"] == "taken"
    assert found["threads"] == 2
    assert found["uptake.TORCH_SHOW"] == "unverified"


def test_binding_follows_the_topology(run: Run, tmp_path: Path) -> None:
    cores = run(tmp_path, {"binding": "numa"}).effective["cores"]
    assert isinstance(cores, int)
    assert cores >= 1

"""A saved configuration in a user's own script under torchrun: it does what the trials did."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from autotune.executors.base import Launch
from autotune.executors.local import LocalExecutor
from autotune.exporters import to_yaml
from autotune.model import BestConfiguration, DeviceKind, Measurement, MeasurementPlan, TrialSpec
from autotune.model.protocol import Verdict
from tests.bests import best_here

SCRIPT = Path(__file__).parents[1] / "ranks" / "uses_configuration.py"
LAYOUTS: dict[str, dict[str, Any]] = {
    "ddp": {"bucket_cap_mb": 1, "gradient_as_bucket_view": True},
    "fsdp_full": {
        "strategy": "fsdp_full", "reshard_after_forward": True, "forward_prefetch": 1,
        "activation_checkpointing": "every_block",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What a script under torchrun saw, for each layout."""
    folder = tmp_path_factory.mktemp("script")
    for name, settings in LAYOUTS.items():
        (folder / name).write_text(to_yaml(best_here(settings)), encoding="utf-8")
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        str(SCRIPT), "out.json", *LAYOUTS,
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(LAYOUTS, json.loads((folder / "out.json").read_text()), strict=True))


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    with LocalExecutor() as executor:
        yield executor


def in_trial(executor: LocalExecutor, best: BestConfiguration, folder: Path) -> Measurement:
    spec = TrialSpec(
        trial_id="t", workload="tiny", settings=best.settings, environment=best.environment,
        device=DeviceKind.CPU,
        plan=MeasurementPlan(
            min_warmup_steps=2, max_warmup_steps=2, windows=1, max_steps_per_window=1
        ),
    )  # fmt: skip
    launch = Launch(spec=spec, nodes=1, ranks_per_node=2, directory=folder, time_limit_s=120)
    with pytest.MonkeyPatch.context() as patch:
        # It changes from test to test, and another environment is another warm parent.
        patch.delenv("PYTEST_CURRENT_TEST")
        end = executor.run(launch, lambda _: Verdict.GO, Event())
    assert isinstance(end.measurement, Measurement), end
    return end.measurement


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_script_trains_as_the_trial_did(
    name: str, scripts: dict[str, dict[str, Any]], executor: LocalExecutor, tmp_path: Path
) -> None:
    script = scripts[name]
    trial = in_trial(executor, best_here(LAYOUTS[name]), tmp_path)
    expected = {"strategy": "ddp"} | LAYOUTS[name]
    expected.pop("activation_checkpointing", None)
    assert {key: script["effective"][key] for key in expected} == expected
    shared = {key: value for key, value in script["effective"].items() if key in trial.effective}
    assert shared == {key: trial.effective[key] for key in shared}
    assert len(shared) > len(expected)
    assert script["threads"] == trial.effective["threads"]
    assert script["losses"] == pytest.approx(trial.losses[:3], rel=1e-6)
    # Two micro-batches a step: gradients travel with the second one only.
    assert script["stepped"] == [False, True] * 3
    assert [calls > 0 for calls in script["reduced"]] == [False, True] * 3

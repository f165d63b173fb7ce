"""A saved file in the commands that take one: verify, export, diff."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from autotune.exporters import to_yaml
from autotune.model import BestConfiguration
from tests import warm_command
from tests.bests import best_here, best_on_p4d


def call(folder: Path, *arguments: str, expect: int = 0) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "AUTOTUNE_HOME": str(folder / "data")}
    done = warm_command.call(folder, *arguments, environment=environment)
    assert done.returncode == expect, done.stderr
    assert "Traceback" not in done.stderr
    return done


def write(folder: Path, best: BestConfiguration, name: str = "best.yaml") -> None:
    (folder / name).write_text(to_yaml(best), encoding="utf-8")


def test_verify_launches_both_again_and_updates_what_holds(tmp_path: Path) -> None:
    """The baseline is held at what makes it far slower, so that the answer is known."""
    settings = {"micro_batch": 4, "accumulation_steps": 1}
    held = {"pinned": {"accumulation_steps": 4}, "ratio": None}
    write(tmp_path, best_here(settings, evidence=vars(best_here(settings).evidence) | held))
    done = call(
        tmp_path, "verify", "best.yaml", "--window", "0.05s", "--update", "--format", "json"
    )
    found = json.loads(done.stdout)
    assert found["verification"] == "holds"
    assert found["now"]["low"] > 1
    assert found["updated"] == "best.yaml"
    assert done.stderr.count("round ") == 10
    document = yaml.safe_load((tmp_path / "best.yaml").read_text())
    assert document["evidence"]["winner"]["launches"] == 5
    assert document["evidence"]["ratio"]["estimate"] == pytest.approx(
        found["now"]["estimate"], 1e-4
    )
    assert document["fingerprint"]["parameters"] > 100_000
    assert document["fingerprint"]["compute_dtype"] == "float32"


def test_verify_refuses_other_machines_and_defaults(tmp_path: Path) -> None:
    write(tmp_path, best_on_p4d())
    assert "no GPU is visible here" in call(tmp_path, "verify", "best.yaml", expect=2).stderr
    write(tmp_path, best_here(conclusion="keep_defaults"))
    assert "says to keep the defaults" in call(tmp_path, "verify", "best.yaml", expect=2).stderr
    refused = call(tmp_path, "verify", "best.yaml", "--executor", "simulated", expect=2)
    assert "--executor: 'simulated' measures nothing" in refused.stderr


def test_export_lists_what_is_left_out_and_wants_force(tmp_path: Path) -> None:
    write(tmp_path, best_here({"bucket_cap_mb": 50}, conclusion="unconfirmed"))
    refused = call(tmp_path, "export", "best.yaml", "--to", "deepspeed", expect=2)
    assert "is unconfirmed" in refused.stderr
    done = call(tmp_path, "export", "best.yaml", "--to", "deepspeed", "--force")
    assert json.loads(done.stdout)["train_batch_size"] == 16
    assert "forced: best.yaml: is unconfirmed" in done.stderr
    assert "warning: --to deepspeed leaves to you: bucket_cap_mb=50" in done.stderr


def test_diff_names_fields(tmp_path: Path) -> None:
    write(tmp_path, best_here())
    write(tmp_path, best_here({"bucket_cap_mb": 50}), "other.yaml")
    assert "bucket_cap_mb" in call(tmp_path, "diff", "best.yaml", "other.yaml").stdout
    found = json.loads(call(tmp_path, "diff", "best.yaml", "other.yaml", "--format", "json").stdout)
    assert found == {"settings.parallelism.bucket_cap_mb": [None, "50"]}
    assert "They say the same." in call(tmp_path, "diff", "best.yaml", "best.yaml").stdout

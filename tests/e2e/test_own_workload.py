"""A user's own model, tuned by the command as a user runs it."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests import warm_command

EXAMPLE = Path(__file__).parents[2] / "examples/function/my_model.py"


def autotune(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "AUTOTUNE_HOME": str(folder / "data")}
    return warm_command.call(folder, *arguments, environment=environment)


def run(folder: Path, workload: str) -> "subprocess.CompletedProcess[str]":
    return autotune(
        folder, "run", "--instance", "local", "--workload", workload, "--nproc", "2",
        "--only", "strategy", "--strategy", "grid", "--trials", "2", "--window", "0.05s",
        "--output", "best.yaml",
    )  # fmt: skip


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example, in which it has been tuned."""
    folder = tmp_path_factory.mktemp("own")
    shutil.copy(EXAMPLE, folder)
    done = run(folder, "my_model:build")
    assert done.returncode == 0, done.stderr
    assert "fresh interpreter" not in done.stderr
    return folder


def test_the_example_is_tuned_and_saved(tuned: Path) -> None:
    best = yaml.safe_load((tuned / "best.yaml").read_text())
    assert best["for"]["workload"] == "my_model:build"
    assert best["for"]["global_batch"] == 64
    shown = autotune(tuned, "show", "latest", "--format", "json")
    trials = json.loads(shown.stdout)["trials"]
    assert {t["measurement"]["effective"]["strategy"] for t in trials} == {
        "ddp", "fsdp_full", "fsdp_grad_op"
    }  # fmt: skip
    sharded = [t for t in trials if t["measurement"]["effective"]["strategy"] != "ddp"]
    # Four blocks and the root.
    assert {t["measurement"]["effective"]["fsdp_modules"] for t in sharded} == {5}
    assert {t["measurement"]["parameters"] for t in trials} == {
        16 * 128 + 128 + 4 * (2 * 128 * 512 + 512 + 128) + 128 + 1
    }


def test_a_mistake_in_the_users_code_is_shown_as_theirs(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    (tmp_path / "my_model.py").write_text(text.replace("mse_loss(model(", "mse_los(model("))
    (tmp_path / "typo.py").write_text(text.replace("global_batch=64", "globl_batch=64"))
    early = run(tmp_path, "typo:build")
    assert early.returncode == 2
    assert "unexpected keyword argument 'globl_batch' (typo.py:" in early.stderr
    assert "autotune/" not in early.stderr
    late = run(tmp_path, "my_model:build")
    assert late.returncode == 3
    assert "crashed: rank" in late.stderr
    assert "(my_model.py:" in late.stderr

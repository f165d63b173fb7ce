"""A user's own script, tuned by the command as a user runs it."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml

from tests import warm_command

SCRIPT = Path(__file__).parents[1] / "scripts" / "train.py"
TOLD = ("--micro-batch", "{micro_batch}", "--accumulate", "{accumulation_steps}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(SCRIPT, tmp_path)
    return tmp_path


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    # Of a script that fails the log is kept; and its path is short, for sockets.
    kept = Path(tempfile.gettempdir()) / "kept"
    kept.mkdir(exist_ok=True)
    own = {"AUTOTUNE_HOME": str(folder / "data"), "TMPDIR": str(kept)}
    environment = {**os.environ, **own}
    here = ("--instance", "local", "--nproc", "2")
    return warm_command.call(folder, "run", *here, *arguments, environment=environment)


def test_a_script_is_tuned_and_saved(folder: Path) -> None:
    done = run(
        folder, "--only", "accumulation_steps", "--strategy", "grid", "--trials", "1",
        "--window", "0.05s", "--output", "best.yaml", "--", "train.py", *TOLD,
    )  # fmt: skip
    # The batch is needed for {micro_batch}, and nobody has named it.
    assert done.returncode == 2
    assert "--global-batch: has to be given: {micro_batch} follows from it" in done.stderr
    done = run(
        folder, "--only", "accumulation_steps", "--strategy", "grid", "--trials", "1",
        "--window", "0.05s", "--global-batch", "16", "--output", "best.yaml",
        "--", "train.py", *TOLD,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "fresh interpreter" not in done.stderr
    best = yaml.safe_load((folder / "best.yaml").read_text())
    assert best["for"]["workload"].startswith("train.py#")
    assert best["script"]["arguments"] == list(TOLD)
    assert (best["script"]["samples"], best["fingerprint"]["parameters"]) == ("counted", 17)


def test_a_dry_run_shows_commands_and_starts_nothing(folder: Path) -> None:
    done = run(
        folder, "--dry-run", "--global-batch", "8", "--", "train.py", *TOLD, "two words", "{x}"
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    line = "torchrun --standalone --nproc-per-node 2 train.py --micro-batch {} --accumulate {} "
    end = "'two words' '{x}'"
    assert lines[0] == line.format(4, 1) + end
    assert lines[lines.index("# accumulation_steps=2") + 1] == line.format(2, 2) + end
    assert not (folder / "data").exists()


def test_a_mistake_in_the_script_is_shown_at_once(folder: Path) -> None:
    done = run(folder, "--", "train.py", "--do", "bug")
    assert done.returncode == 2
    assert "object has no attribute 'missing' (train.py:" in done.stderr
    assert "model.missing()" in done.stderr
    log = Path(done.stderr.partition("the whole log: ")[2].strip())
    assert "model.missing()" in log.read_text()
    wrong = run(folder, "--global-batch", "64", "--", "train.py", "--micro-batch", "8")
    assert wrong.returncode == 2
    assert "--global-batch: 64 is not what train.py trains on" in wrong.stderr
    assert "hint: --global-batch 16" in wrong.stderr

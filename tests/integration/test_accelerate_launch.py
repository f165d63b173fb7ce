"""An exported file with the real `accelerate launch`: what it says is in effect."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.exporters import exporter
from tests.bests import best_here

SCRIPT = Path(__file__).parents[1] / "ranks" / "accelerated.py"


def test_accelerate_launches_what_was_exported(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    text = exporter("accelerate").export(best_here())
    (tmp_path / "accelerate.yaml").write_text(text, encoding="utf-8")
    # As the file's own head says.
    variables = {"ACCELERATE_USE_CPU": "true", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "2"}
    assert all(name in text for name in variables)
    done = subprocess.run(
        [sys.executable, "-m", "accelerate.commands.launch", "--config_file", "accelerate.yaml",
         str(SCRIPT)],
        cwd=tmp_path, env=os.environ | variables, capture_output=True, text=True, check=False,
        timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("{")]
    effective = json.loads(line)
    assert (effective["strategy"], effective["ranks"]) == ("ddp", 2)
    assert (effective["accumulation_steps"], effective["mixed_precision"]) == (2, "no")

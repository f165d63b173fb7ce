"""Simulated studies as a user runs them."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from autotune.executors.landscapes import Scenario, shipped_names
from tests.e2e.test_cli import AUTOTUNE, Home

ROOT = Path(__file__).parents[2]
RUN = ("run", "--executor", "simulated")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_simulated_study_is_labelled_everywhere_and_saves_nothing(home: Home) -> None:
    (home.path / "mine.yaml").write_text("base: all-equal\nlaunch_noise_percent: 8\n")
    only = ("--only", "strategy", "--trials", "2", "--seed", "1")
    done = home.call(*RUN, "--landscape", "mine.yaml", *only)
    assert "simulated:mine" in done.stdout
    assert "Simulated, nothing was measured." in done.stdout
    assert "nothing is saved" in done.stderr
    answer = json.loads(
        home.call(*RUN, "--landscape", "mine.yaml", *only, "--format", "json").stdout
    )
    assert answer["kind"] == "simulated"
    assert answer["best"] is None
    assert answer["saved"] is None
    assert answer["evidence"]["baseline"]["samples_per_second"] > 0
    listed = json.loads(home.call("runs", "--format", "json").stdout)
    assert [run["kind"] for run in listed] == ["simulated"] * 2
    assert "simulated" in home.call("runs").stdout
    shown = json.loads(home.call("show", "latest", "--format", "json").stdout)
    assert shown["study"]["kind"] == "simulated"
    assert all(trial["measurement"]["landscape"] == "mine" for trial in shown["trials"])
    assert "kind        simulated" in home.call("show", "latest").stdout
    assert not list(home.path.glob("**/best"))
    for name in ("simulated:mine", "local"):
        home.call("best", "--instance", name, expect=2)


def test_an_instance_type_of_the_catalogue_can_be_simulated(home: Home) -> None:
    done = home.call(*RUN, "--landscape", "interacting", "--only", "nccl_buffer_bytes",
                     "--trials", "1", "--format", "json")  # fmt: skip
    assert json.loads(done.stdout)["kind"] == "simulated"
    assert "8 x A100" in done.stderr


BAD = [
    ([*RUN], ["--landscape has to be given", "all-equal", "YAML file"]),
    ([*RUN, "--landscape", "al-equal"], ["--landscape", "did you mean 'all-equal'"]),
    ([*RUN, "--landscape", "none.yaml"], ["none.yaml", "can't be read"]),
    ([*RUN, "--landscape", "bad.yaml"], ["bad.yaml:2: seed", "whole number"]),
    ([*RUN, "--landscape", "rugged", "--instance", "local"], ["--instance", "simulated"]),
    ([*RUN, "--landscape", "rugged", "--output", "x.yaml"], ["--output", "simulated"]),
    ([*RUN, "--landscape", "rugged", "--cold"], ["--cold", "simulated"]),
    (["run", "--instance", "local", "--landscape", "rugged"], ["--landscape", "--executor"]),
    (["run", "--executor", "real"], ["--executor", "local", "simulated"]),
]


@pytest.mark.parametrize(("arguments", "words"), BAD)
def test_what_contradicts_itself_is_refused(
    home: Home, arguments: list[str], words: list[str]
) -> None:
    (home.path / "bad.yaml").write_text("base: rugged\nseed: x\n")
    done = home.call(*arguments, expect=2)
    for word in words:
        assert word in done.stderr


def test_every_landscape_and_key_is_documented() -> None:
    text = (ROOT / "docs" / "simulation.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_-]+)`", "\n".join(re.findall(r"^\| .*", text, re.MULTILINE))))
    assert set(shipped_names()) | set(Scenario.__dataclass_fields__) <= named


def test_a_study_goes_on_though_nobody_can_read_its_progress(home: Home) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*AUTOTUNE, *RUN, "--landscape", "one-better", "--only", "strategy"],
            cwd=home.path, env=home.environment, stdout=subprocess.PIPE, stderr=full, text=True,
            timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0
    assert "Simulated" in done.stdout
    (listed,) = json.loads(home.call("runs", "--format", "json").stdout)
    assert listed["status"] == "finished"


def test_a_budget_that_turns_out_too_short_is_not_taken_for_an_answer(home: Home) -> None:
    done = home.call(*RUN, "--landscape", "additive", "--budget", "130s")
    assert "no time to try anything else" in done.stdout
    assert "nothing beat them" not in done.stdout.lower()
    needed = re.search(r"need a budget of about (\d+) s", " ".join(done.stdout.split()))
    assert needed
    enough = home.call(*RUN, "--landscape", "additive", "--budget", f"{needed[1]}s")
    assert "no time to try anything else" not in enough.stdout

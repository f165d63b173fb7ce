"""A run that is mirrored, and goes on from there on another machine."""

import json
from pathlib import Path

import pytest

from tests.e2e.test_cli import Home

RUN = ("run", "--executor", "simulated", "--landscape", "additive", "--only", "strategy",
       "--trials", "2", "--seed", "3", "--run-id", "mine")  # fmt: skip


@pytest.fixture
def machines(tmp_path: Path) -> tuple[Home, Home]:
    """Two, that share nothing but the mirror."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    return Home(tmp_path / "one"), Home(tmp_path / "two")


def test_another_machine_goes_on_with_a_mirrored_run(
    machines: tuple[Home, Home], tmp_path: Path
) -> None:
    one, two = machines
    mirror = ("--mirror", f"file://{tmp_path}/mirror")
    one.call(*RUN, *mirror)
    records = sorted((tmp_path / "mirror" / "mine" / "records").iterdir())
    kinds = [json.loads(path.read_text())["kind"] for path in records]
    assert kinds[:2] == ["study", "trial"]
    # As if the machine had been taken away after its third trial.
    for path in records[4:]:
        path.unlink()
    done = two.call("resume", "mine", *mirror)
    assert "3 trials of before kept" in done.stderr
    trials = [
        json.loads(home.call("show", "mine", "--format", "json").stdout)["trials"]
        for home in machines
    ]
    assert [trial["candidate"] for trial in trials[0]] == [
        trial["candidate"] for trial in trials[1]
    ]
    again = sorted(path.name for path in (tmp_path / "mirror" / "mine" / "records").iterdir())
    assert again == [path.name for path in records]


def test_a_place_that_is_none_is_refused_before_anything_runs(
    machines: tuple[Home, Home],
) -> None:
    said = machines[0].call(*RUN, "--mirror", "http://here", expect=2).stderr
    assert "--mirror: 'http://here' is no place" in said
    assert "s3://BUCKET/PREFIX" in said

"""A run in the place of a file: the message names the command that gives the file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.cli.main import main
from autotune.model import StudySpec
from autotune.storage import default_url, open_store
from tests.conformance.records import a_best, a_study, a_target

Call = Callable[..., tuple[int, str]]
COMMANDS = [("diff",), ("export", "--to", "env"), ("verify",)]
SIMULATED = a_target(instance="simulated:faulty")


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(command: tuple[str, ...], run: str) -> tuple[int, str]:
        """Exit code and stderr."""
        files = [run, "other.yaml"] if command[0] == "diff" else [run]
        monkeypatch.setattr("sys.argv", ["autotune", command[0], *files, *command[1:]])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_is_told_from_a_file(call: Call, tmp_path: Path, command: tuple[str, ...]) -> None:
    asking = "hint: a run is no file; its answer becomes one by: autotune best --instance … "
    code, said = call(command, "20250330-120000-ab12")
    assert code == 2
    assert "20250330-120000-ab12: can't be read: No such file" in said
    assert asking in said
    assert not list((tmp_path / "home").glob("*.db"))
    with open_store(default_url()) as store:
        store.add_study(a_study("20250330-120000-ab12"))
        store.add_study(a_study("simulation", spec=StudySpec(target=SIMULATED)))
    said = call(command, "20250330-120000-ab12")[1]
    assert "whose answer isn't the one that is kept; look at it with: autotune show 2025" in said
    with open_store(default_url()) as store:
        store.save_best(a_best(run_id="20250330-120000-ab12"))
    said = call(command, "20250330-1200")[1]
    assert (
        "hint: that is a run; its answer becomes a file by: autotune best --instance p4d.24xlarge "
        "--workload tiny --global-batch 64 > 20250330-120000-ab12.yaml\n"
    ) in said
    assert "that is a simulated run, of which nothing is saved" in call(command, "simulation")[1]
    assert asking in call(command, "20240101-000000-0000")[1]
    assert "hint: " not in call(command, "missing.yaml")[1]
    assert "hint: " not in call(command, "folder/20250330-120000-ab12")[1]

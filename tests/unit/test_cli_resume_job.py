"""Options of `autotune resume` that mean nothing for a run in a SageMaker job, or only there."""

from pathlib import Path

import pytest

from autotune.cli.main import main
from autotune.storage import default_url, open_store
from tests.conformance.records import a_job, a_study

REFUSED = {
    "--cold": [], "--live": [], "--share-machine": [], "--address": ["auto"],
    "--parallel-trials": ["2"], "--trust-script": [], "--log-to": ["cloudwatch:stderr"],
    "--time-limit": ["5m"], "--executor": ["ray"],
}  # fmt: skip


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in a job, and one that isn't."""
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))
    with open_store(default_url()) as store:
        store.add_job(a_job(run_id="r"))
        store.add_study(a_study("local"))


def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
            *words: str) -> str:  # fmt: skip
    monkeypatch.setattr("sys.argv", ["autotune", "resume", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("name", REFUSED)
def test_what_doesnt_go_with_a_job_is_refused_by_its_name(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(capsys, monkeypatch, "r", name, *REFUSED[name])
    assert said.startswith(f"error: {name}: ")
    assert "doesn't go with a run in a SageMaker job" in said


def test_so_is_a_mirror(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(capsys, monkeypatch, "r", "--mirror", f"file://{tmp_path}/m")
    assert said.startswith("error: --mirror: ")


@pytest.mark.parametrize("words", [["--max-cost", "5usd"], ["--detach"]])
def test_what_is_of_jobs_is_refused_elsewhere(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(capsys, monkeypatch, "local", *words)
    assert said.startswith(f"error: {words[0]}: ")
    assert "is of runs in a SageMaker job" in said

"""A machine whose disk is gone goes on with its run from the mirror alone."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autotune.cli.main import app
from autotune.cli.mirroring import open_run_store, study_to_resume
from autotune.errors import UserError
from autotune.model import Conclusion, Script, StudyStatus, UserWorkload
from autotune.storage import MemoryStore, default_url, open_store
from autotune.storage.mirror import send_missing
from autotune.storage.objects import FolderObjects
from tests.conformance.records import a_best, a_study, a_trial

OWN = UserWorkload(
    name="train.py", parameters=1, blocks=0, block="", global_batch=8, module="",
    script=Script(program="train.py", folder="/somewhere", arguments=("--lr", "3")),
)  # fmt: skip


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of run r, which had finished; the store is empty."""
    lost = MemoryStore()
    lost.add_study(a_study())
    for number in range(3):
        lost.add_trial(a_trial(number))
    lost.save_best(a_best(run_id="r"))
    lost.update_study("r", status=StudyStatus.FINISHED, conclusion=Conclusion.IMPROVED)
    send_missing(lost, FolderObjects(tmp_path / "mirror" / "r"), "r")
    own = replace(a_study("own"), spec=replace(a_study().spec, own_workload=OWN))
    lost.add_study(own)
    send_missing(lost, FolderObjects(tmp_path / "mirror" / "own"), "own")
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    return f"file://{tmp_path}/mirror"


def test_the_database_is_made_anew_from_the_mirror(mirror: str) -> None:
    with open_run_store(None, mirror) as store:
        assert study_to_resume(store, "r", trusted=False).status is StudyStatus.FINISHED
    with open_store(default_url()) as store:
        assert [trial.number for trial in store.trials("r")] == [0, 1, 2]
        assert [best.run_id for best in store.bests()] == ["r"]


def test_code_is_started_that_the_user_trusts(mirror: str) -> None:
    with open_run_store(None, mirror) as store:
        with pytest.raises(UserError, match=r"names code to start: train\.py --lr 3"):
            study_to_resume(store, "own", trusted=False)
        assert study_to_resume(store, "own", trusted=True).spec.own_workload == OWN


@pytest.mark.parametrize("run", ["latest", "ow"])
def test_a_run_of_the_mirror_goes_by_its_whole_name(mirror: str, run: str) -> None:
    done = CliRunner().invoke(app, ["resume", run, "--mirror", mirror])
    assert isinstance(done.exception, UserError)
    assert "goes by its whole name" in done.exception.hint


def test_where_a_finished_runs_answer_is_said(mirror: str) -> None:
    done = CliRunner().invoke(app, ["resume", "r", "--mirror", mirror])
    assert isinstance(done.exception, UserError)
    assert "autotune best --instance p4d.24xlarge --workload tiny" in done.exception.hint
    best = CliRunner().invoke(app, ["best", "--instance", "p4d.24xlarge", "--workload", "tiny"])
    assert "run: r" in best.output

"""What `autotune report` and `--log-to` refuse."""

import math
from pathlib import Path

import pytest
import typer

from autotune.cli.main import app
from autotune.cli.report import drift_text, print_answer
from autotune.cli.saving import Saved
from autotune.errors import UserError
from autotune.report import canvas
from autotune.scoring.drift import Drift
from autotune.storage import MemoryStore, open_store
from tests.conformance.records import a_study
from tests.unit.test_simulated_study import BETTER, run, source_of, started

SIMULATED = ("run", "--executor", "simulated", "--landscape", "one-better")
BAD = [
    (["report", "nothing"], ["RUN", "nothing"]),
    (["report", "latest", "--output", "."], ["--output", "folder"]),
    (["report", "latest", "--output", "/proc/x/y.html"], ["can't be written"]),
    (["report", "latest", "--to", "optuna"], ["--output", "has to be given"]),
    (["report", "latest", "--to", "optuna", "--output", "x.db"], ["not a database's URL"]),
    ([*SIMULATED, "--log-to", "paper:x"], ["--log-to", "TOOL:PLACE", "tensorboard:FOLDER"]),
]


@pytest.fixture
def storage(tmp_path: Path) -> str:
    """A store with a run that has just begun."""
    url = f"sqlite:///{tmp_path}/a.db"
    with open_store(url) as store:
        store.add_study(a_study())
    return url


@pytest.mark.parametrize(
    ("stop_after", "name"), [(0, "winner     "), (8, "leading    ")], ids=["to its end", "early"]
)
def test_only_what_is_confirmed_is_called_the_winner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stop_after: int, name: str
) -> None:
    store = MemoryStore()
    study = started(source_of(tmp_path, BETTER), store, only=("strategy",), max_trials=2)
    end = run(study, store, stop_after=stop_after)
    print_answer(study, end, store.trials(study.run_id), Saved(), "table")
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(f"  {name}") for line in lines) == 1
    assert sum(line.startswith(("  winner", "  leading")) for line in lines) == 1


def call(*arguments: str) -> None:
    app(list(arguments), standalone_mode=False)


@pytest.mark.parametrize(("arguments", "words"), BAD)
def test_what_cannot_be_done_is_said(storage: str, arguments: list[str], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        call(*arguments, "--storage", storage)
    for word in words:
        assert word in str(caught.value)


def test_an_unknown_form_is_refused(storage: str) -> None:
    with pytest.raises(typer.BadParameter):
        call("report", "latest", "--to", "pdf", "--storage", storage)


def test_without_matplotlib_the_extra_is_named_and_the_others_work(
    storage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(UserError) as caught:
        call("report", "latest", "--storage", storage)
    assert "autotune-train[report]" in caught.value.hint
    with pytest.raises(UserError):
        canvas.check_drawing()
    call("report", "latest", "--to", "md", "--storage", storage)
    # The study has knobs that this version doesn't have, so that it can't be replayed.
    why = "What wasn't launched is not known here: --set: 'reshard' is no knob"
    assert why in capsys.readouterr().out


def test_a_drift_is_told_by_what_it_came_to() -> None:
    text = drift_text(Drift(per_second=math.log(0.9) / 150), 150.0)
    assert text.startswith("-10.0 % over the 2 m 30 s of all trials (-92.0 % an hour)")

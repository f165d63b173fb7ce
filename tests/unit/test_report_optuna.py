"""A study as Optuna reads it."""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from autotune.errors import FieldError, StorageError
from autotune.model import Candidate, Outcome, Phase, Trial, Window
from autotune.report.optuna_storage import INFEASIBLE, frozen_trials, write_optuna
from tests.conformance.records import a_measurement, a_study, a_trial


def trials() -> list[Trial]:
    """Twelve that completed, one that was stopped, two that failed."""
    found = []
    for number in range(12):
        rate = 100.0 * (1 + number % 3)
        windows = tuple(Window(index=i, steps=1, samples=10, seconds=10 / rate) for i in range(3))
        candidate = Candidate(
            {"strategy": "ddp" if number % 2 else "fsdp_full", "steps": 2 ** (number % 3), "n": 1}
        )
        found.append(
            a_trial(
                number=number, candidate=candidate, phase=Phase.SEARCH,
                measurement=a_measurement(windows=windows),
            )
        )  # fmt: skip
    only = Candidate({"strategy": "ddp", "steps": 16, "reshard": True})
    mixed = Candidate({"strategy": "ddp", "steps": 16, "reshard": 1})
    return [
        *found,
        a_trial(number=12, candidate=only, outcome=Outcome.PRUNED),
        a_trial(number=13, candidate=mixed, outcome=Outcome.OUT_OF_MEMORY, measurement=None),
        a_trial(number=14, candidate=only, outcome=Outcome.PLACEMENT, measurement=None),
    ]


def test_optuna_loads_the_study_and_computes_importance(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/o.db"
    name = write_optuna(a_study(), trials(), url)
    study = optuna.load_study(study_name=name, storage=url)
    assert study.user_attrs["run"] == "r"
    assert study.metric_names == ["samples_per_second"]
    assert [trial.state for trial in study.trials] == (
        [TrialState.COMPLETE] * 12 + [TrialState.PRUNED] + [TrialState.FAIL] * 2
    )
    assert study.best_value == pytest.approx(300.0)
    assert study.best_params["steps"] == 4
    first = study.trials[0]
    assert first.params == {"strategy": "fsdp_full", "steps": 1}
    assert first.distributions["steps"].choices == (1, 2, 4, 16)  # type: ignore[attr-defined]
    assert first.user_attrs["outcome"] == "completed"
    assert list(first.intermediate_values.values()) == pytest.approx([100.0] * 3)
    assert first.datetime_start
    importance = optuna.importance.get_param_importances(study)
    assert max(importance, key=lambda name: importance[name]) == "steps"


def test_true_and_one_stay_different_and_failures_are_told_apart() -> None:
    *_, pruned, memory, placement = frozen_trials(trials())
    assert pruned.params["reshard"] == "true"
    assert memory.params["reshard"] == "1"
    assert memory.constraints == {INFEASIBLE: 1.0}
    assert placement.constraints == {INFEASIBLE: 0.0}


def test_a_study_is_written_once_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/o.db"
    with monkeypatch.context() as patch:
        patch.setattr(optuna.Study, "add_trials", _fail)
        with pytest.raises(StorageError, match="no room"):
            write_optuna(a_study(), trials(), url)
    assert optuna.get_all_study_names(url) == []
    write_optuna(a_study(), trials(), url)
    with pytest.raises(FieldError, match="already"):
        write_optuna(a_study(), trials(), url)


def _fail(*_: object) -> None:
    raise RuntimeError("no room")


@pytest.mark.parametrize("url", ["o.db", "", "mysql://h/x", "mysql://me:secret@h/x"])
def test_what_is_no_database_is_refused(url: str) -> None:
    with pytest.raises(FieldError) as caught:
        write_optuna(a_study(), trials(), url)
    assert "--output" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_dashboard_opens_it(tmp_path: Path) -> None:
    pytest.importorskip("optuna_dashboard")
    write_optuna(a_study(), trials(), url := f"sqlite:///{tmp_path}/o.db")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("optuna-dashboard")), url, "--port", str(port)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as dashboard:
        try:
            body = _answer(f"http://127.0.0.1:{port}/api/studies/1")
        finally:
            dashboard.kill()
    shown = json.loads(body)
    states = [trial["state"] for trial in shown["trials"]]
    assert states == ["Complete"] * 12 + ["Pruned"] + ["Fail"] * 2
    assert {space["name"] for space in shown["union_search_space"]} == {
        "strategy", "steps", "reshard",
    }  # fmt: skip


def _answer(url: str) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(url, timeout=30) as response:
            return str(response.read(), "utf-8")
        time.sleep(0.3)
    raise AssertionError("the dashboard doesn't answer")

"""`autotune report` and `--log-to` as a user runs them."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import optuna
import pytest

from tests.e2e.test_cli import Home

SIMULATED = ("run", "--executor", "simulated", "--landscape", "one-better", "--only", "strategy")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with one simulated run, which was shown in TensorBoard."""
    home = Home(tmp_path_factory.mktemp("report"))
    done = home.call(*SIMULATED, "--log-to", "tensorboard:tb")
    assert "nothing more is logged" not in done.stderr
    return home


def test_a_page_is_written_that_needs_nothing_else(home: Home) -> None:
    name = home.call("report", "latest").stdout.strip()
    page = (home.path / name).read_text("utf-8")
    run = json.loads(home.call("runs", "--format", "json").stdout)[0]["run"]
    assert name == f"report-{run}.html"
    assert page.startswith("<!doctype html>")
    assert page.count("<figure>") >= 4
    assert "Simulated, nothing was measured" in page
    assert "not known here" not in page


def test_markdown_and_json_go_to_stdout_or_a_file(home: Home) -> None:
    text = home.call("report", "latest", "--to", "md").stdout
    assert text.startswith("# autotune: tiny on simulated:one-better")
    done = home.call("report", "latest", "--to", "json", "--output", "deep/r.json")
    assert done.stdout == "deep/r.json\n"
    data = json.loads((home.path / "deep" / "r.json").read_text("utf-8"))
    assert data["kind"] == "simulated"
    assert data["answer"]["conclusion"] in ("improved", "keep_defaults")
    assert data["trials"] == len(data["history"])


def test_optuna_gets_the_study_once(home: Home) -> None:
    url = f"sqlite:///{home.path}/optuna.db"
    name = home.call("report", "latest", "--to", "optuna", "--output", url).stdout.strip()
    study = optuna.load_study(study_name=name, storage=url)
    shown = json.loads(home.call("show", "latest", "--format", "json").stdout)
    assert [t.user_attrs["outcome"] for t in study.trials] == [
        trial["outcome"] for trial in shown["trials"]
    ]
    done = home.call("report", "latest", "--to", "optuna", "--output", url, expect=2)
    assert "already" in done.stderr


def test_the_run_is_in_tensorboard(home: Home) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    (folder,) = (home.path / "tb").iterdir()
    study = reader.EventAccumulator(str(folder))
    study.Reload()
    shown = json.loads(home.call("show", "latest", "--format", "json").stdout)
    launched = [t["number"] for t in shown["trials"] if t["measurement"]]
    assert [event.step for event in study.Scalars("samples_per_second")] == launched


def test_a_database_with_odd_content_is_refused_or_shown_as_text(
    home: Home, tmp_path: Path
) -> None:
    """Somebody else's database: nothing in it becomes markup, and nothing ends in a traceback."""
    copy = tmp_path / "odd.db"
    nasty = "<script>alert(1)</script>"
    with closing(sqlite3.connect(home.path / "data" / "autotune.db")) as own:
        own.backup(database := sqlite3.connect(copy))
    with database:
        # Texts are kept as JSON.
        for table, column in (("studies", "reason"), ("trials", "reason"), ("trials", "log_tail")):
            database.execute(f"UPDATE {table} SET {column} = ?", (json.dumps(nasty),))
    where = ("--storage", f"sqlite:///{copy}")
    home.call("report", "latest", "--output", "odd.html", *where)
    page = (home.path / "odd.html").read_text("utf-8")
    assert nasty not in page
    assert "&lt;script&gt;" in page
    with database:
        assert database.execute("UPDATE windows SET seconds = -seconds").rowcount
    database.close()
    named = home.call("report", "latest", "--output", "odd.html", *where).stderr
    assert re.search(r"unreadable: .*windows\[.*\]\.seconds: -\S+ has to be at least", named)
    assert "samples/s" in (home.path / "odd.html").read_text("utf-8")

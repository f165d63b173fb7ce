"""One record that can't be read doesn't keep the others from being shown."""

import json
import math
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Integer

from autotune.cli.main import main
from autotune.model import Outcome, StudySpec
from autotune.storage import open_store
from autotune.storage.columns import Document, Number
from autotune.storage.lease import Owner
from autotune.storage.tables import Base
from tests.conformance.records import a_best, a_job, a_study, a_target, a_trial

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    with open_store(f"sqlite:///{path}") as store:
        for run_id in ("good", "broken"):
            store.add_study(a_study(run_id))
            store.add_trial(a_trial(0, run_id=run_id))
            store.add_trial(a_trial(1, run_id=run_id))
        store.save_best(a_best(run_id="good"))
        store.save_best(a_best(run_id="broken", target=a_target(workload="mini")))
    return path


@pytest.fixture
def call(
    database: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    def run(*arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of the command."""
        url = f"sqlite:///{database}"
        monkeypatch.setattr("sys.argv", ["autotune", *arguments, "--storage", url])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return run


def change(database: Path, statement: str) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute(statement)
    connection.close()


def test_runs_shows_the_others_and_names_the_one(database: Path, call: Call) -> None:
    change(database, "UPDATE studies SET status = 'lost' WHERE run_id = 'broken'")
    code, out, err = call("runs")
    assert code == 0
    assert "good" in out
    assert "unreadable: sqlite:///" in err
    assert "studies[run_id='broken'].status: 'lost' is not known" in err
    assert "hint: the record was changed by something else" in err
    listed = json.loads(call("runs", "--format", "json")[1])
    assert [one.get("run") for one in listed] == ["good", None]
    assert (listed[1]["record"], listed[1]["status"]) == ("broken", "unreadable")
    assert "'lost' is not known" in listed[1]["reason"]


def test_a_broken_trial_is_counted_and_the_others_are_shown(database: Path, call: Call) -> None:
    change(database, "UPDATE trials SET settings = '{' WHERE run_id = 'broken' AND number = 1")
    listed = json.loads(call("runs", "--format", "json")[1])
    assert [one["trials"] for one in listed] == [2, 2]
    code, out, _ = call("show", "broken", "--format", "json")
    assert code == 0
    assert [one.get("number") for one in json.loads(out)["trials"]] == [0, None]
    assert json.loads(out)["trials"][1]["record"] == "1"
    assert "trials[run_id='broken', number=1].settings" in call("show", "broken")[2]


def test_best_finds_an_answer_beside_a_broken_one(database: Path, call: Call) -> None:
    change(database, "UPDATE best_configurations SET conclusion = 'x' WHERE run_id = 'broken'")
    code, out, err = call("best", "--instance", "p4d.24xlarge", "--workload", "tiny")
    assert code == 0
    assert "p4d.24xlarge" in out
    assert "best_configurations[" in err
    code, _, err = call("best", "--instance", "p4d.24xlarge", "--workload", "mini")
    assert code == 2
    assert "best_configurations[" in err


@pytest.mark.parametrize("command", ["show", "resume"])
def test_the_broken_one_itself_is_refused(database: Path, call: Call, command: str) -> None:
    change(database, "UPDATE studies SET machine = '[]' WHERE run_id = 'broken'")
    code, _, err = call(command, "broken")
    assert code == 1
    assert "studies[run_id='broken'].machine: [] has to be a mapping" in err
    assert "Traceback" not in err


def test_an_answer_that_cant_be_read_is_replaced(database: Path) -> None:
    change(database, "UPDATE best_configurations SET evidence = '7' WHERE run_id = 'good'")
    with open_store(f"sqlite:///{database}") as store:
        store.save_best(a_best(run_id="broken"))
        found = store.best(a_best().target)
    assert found is not None
    assert found.run_id == "broken"


def test_what_would_command_a_terminal_is_shown_escaped(database: Path, call: Call) -> None:
    with open_store(f"sqlite:///{database}") as store:
        tail = "\x1b]0;owned\x07 \x9b2J\ttab\nnext ü"
        store.add_study(a_study("escape", reason="x"))
        store.add_trial(a_trial(0, run_id="escape", outcome=Outcome.CRASHED, log_tail=tail))
    out = call("show", "escape")[1]
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert r"\x1b]0;owned\x07 \x9b2J" in out
    assert "next ü" in out


def test_a_database_cant_have_any_file_overwritten(
    database: Path, call: Call, tmp_path: Path
) -> None:
    """A crafted one may name any file as a run's output, and have the run resumed."""
    precious = tmp_path / "precious.sh"
    precious.write_text("echo mine\n")
    with open_store(f"sqlite:///{database}") as store:
        spec = replace(a_study().spec, output=str(precious))
        store.add_study(a_study("crafted", spec=spec))
    code, _, err = call("resume", "crafted")
    assert code == 2
    assert "which holds something else" in err
    assert precious.read_text() == "echo mine\n"


def test_a_database_cant_name_any_folder(database: Path, call: Call) -> None:
    with open_store(f"sqlite:///{database}") as store:
        spec = StudySpec(
            target=a_target(instance="simulated:faulty", ranks_per_node=2, global_batch=32),
            landscape="faulty",
        )
        store.add_study(a_study("../../escaped", spec=spec))
    code, _, err = call("resume", "../../escaped")
    assert code == 2
    assert "is not a run id that autotune gives" in err


SHOW, REPORT = ("show", "good"), ("report", "good", "--to", "md")
RUNS, BEST = ("runs",), ("best", "--instance", "p4d.24xlarge")
READERS = {
    "studies": (RUNS, SHOW, REPORT),
    "trials": (SHOW, REPORT),
    "windows": (SHOW, REPORT),
    "leases": (RUNS, SHOW),
    "jobs": (RUNS, SHOW),
    "best_configurations": (BEST, REPORT),
}
ODD: list[Any] = [math.inf, -math.inf, "nan", -1, 0, 5e-324, 1e308, 2**63 - 1]
COLUMNS = [
    (table.name, column.name)
    for table in Base.metadata.tables.values()
    for column in table.columns
    if isinstance(column.type, Integer | Number)
]
DOCUMENTS = [
    (table.name, column.name)
    for table in Base.metadata.tables.values()
    for column in table.columns
    if isinstance(column.type, Document)
]


@pytest.fixture
def leased(database: Path) -> Path:
    """Something in every table."""
    with open_store(f"sqlite:///{database}") as store:
        store.take_lease("good", Owner(token="t", host="h", pid=1), 60.0)
        store.add_job(a_job(run_id="elsewhere"))
    return database


def put(database: Path, table: str, column: str, value: object) -> None:
    """Into every row that takes it: a key may be another row's."""
    with sqlite3.connect(database) as connection:
        for (row,) in connection.execute(f"SELECT rowid FROM {table}").fetchall():
            with suppress(sqlite3.IntegrityError):
                statement = f'UPDATE {table} SET "{column}" = ? WHERE rowid = ?'
                connection.execute(statement, (value, row))
    connection.close()


def look(call: Call, table: str) -> None:
    """Any other end than an exit fails in `call`."""
    for command in READERS[table]:
        code, _, err = call(*command)
        assert code in (0, 1, 2)
        assert code == 0 or "error: " in err


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_no_number_in_a_column_ends_a_command(
    leased: Path, call: Call, tmp_path: Path, table: str, column: str
) -> None:
    kept = shutil.copy(leased, tmp_path / "kept.db")
    for value in ODD:
        shutil.copy(kept, leased)
        put(leased, table, column, value)
        look(call, table)


@pytest.mark.parametrize(("table", "column"), DOCUMENTS)
def test_no_number_in_a_document_ends_a_command(
    leased: Path, call: Call, table: str, column: str
) -> None:
    chance = random.Random(f"{table}.{column}")
    with sqlite3.connect(leased) as connection:
        (text,) = connection.execute(f'SELECT "{column}" FROM {table}').fetchone()
    connection.close()
    document = json.loads(text) if text else None
    for parent, key in list(numbers(document)):
        was = parent[key]
        for value in chance.sample([*ODD, 10**400], 2):
            finite = not isinstance(value, float) or math.isfinite(value)
            parent[key] = value if finite else str(value)
            put(leased, table, column, json.dumps(document))
            look(call, table)
        parent[key] = was


def numbers(document: Any) -> Iterator[tuple[Any, Any]]:
    """Where there are numbers in it: what holds one, and its key there."""
    inside = document if isinstance(document, dict | list) else ()
    for key, value in list(inside.items() if isinstance(inside, dict) else enumerate(inside)):
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield inside, key
        yield from numbers(value)

"""Stores under threads, other processes and kills."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autotune.errors import StorageError
from autotune.model import Conclusion
from autotune.storage import Store, open_store
from autotune.storage.engine import _enter_wal
from tests.conformance.records import TARGET, a_best, a_study, a_trial, same

ROOT = Path(__file__).parents[2]
IMPORTS = """
import os, signal, sys
from autotune.errors import StorageError
from autotune.model import Conclusion
from autotune.storage import open_store
from tests.conformance.records import a_best, a_study, a_trial
url, number = sys.argv[1], int(sys.argv[2])
"""


def start(program: str, url: str, number: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", IMPORTS + program, url, str(number)],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def at_once(threads: int, work: Callable[[int], None]) -> None:
    """Run `work(0)`, `work(1)`, ... in as many threads that begin together."""
    barrier = threading.Barrier(threads, timeout=30)

    def together(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(together, range(threads)))


def test_a_process_killed_right_after_a_write_keeps_it(url: str) -> None:
    process = start(
        """
store = open_store(url)
store.add_study(a_study())
store.add_trial(a_trial(7))
store.save_best(a_best())
store.add_trial(a_trial(8))
os.kill(os.getpid(), signal.SIGKILL)
""",
        url,
    )
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, errors
    with open_store(url) as store:
        assert same(store.trials("r"), [a_trial(7), a_trial(8)])
        assert same(store.studies(), [a_study()])
        assert same(store.bests(), [a_best()])


def test_a_killed_transaction_leaves_nothing_and_blocks_nobody(url: str) -> None:
    process = start(
        """
store = open_store(url)
store.add_study(a_study())
from autotune.storage import sql
def die(trial):
    os.kill(os.getpid(), signal.SIGKILL)
sql.window_values = die
store.add_trial(a_trial())
""",
        url,
    )
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, errors
    with open_store(url) as store:
        assert list(store.trials("r")) == []
        store.add_trial(a_trial())
        assert same(store.trials("r"), [a_trial()])


def test_processes_open_a_new_database_and_write_at_once(url: str) -> None:
    program = """
print("ready", flush=True)
sys.stdin.readline()
with open_store(url) as store:
    store.add_study(a_study())
    for i in range(10):
        store.add_trial(a_trial(10 * number + i))
        store.add_trial(a_trial(1000 + i))
        store.save_best(a_best(list(Conclusion)[number], f"run-{number}"))
    try:
        store.add_trial(a_trial(2000, log_tail=str(number)))
    except StorageError as error:
        print("refused" if "other content" in str(error) else error)
    else:
        print("added")
"""
    processes = [start(program, url, number) for number in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [process.communicate(timeout=60) for process in processes]
    assert [errors for _, errors in ends] == ["", "", ""]
    assert sorted(output for output, _ in ends) == ["added\n", "refused\n", "refused\n"]
    with open_store(url) as store:
        numbers = [trial.number for trial in store.trials("r")]
        assert numbers == [*range(30), *range(1000, 1010), 2000]
        best = store.best(TARGET)
        assert best is not None
        assert best.conclusion is not Conclusion.UNCONFIRMED


def test_threads_write_and_read_at_once(store: Store) -> None:
    store.add_study(a_study())

    def work(number: int) -> None:
        for i in range(5):
            store.add_trial(a_trial(5 * number + i))
            store.add_trial(a_trial(1000))
            # Whole trials or none: never one without its windows.
            assert all(same(t, a_trial(t.number)) for t in store.trials("r"))

    at_once(6, work)
    assert [trial.number for trial in store.trials("r")] == [*range(30), 1000]


def test_threads_add_unequal_trials_and_one_wins(store: Store) -> None:
    store.add_study(a_study())
    refused: list[int] = []

    def work(number: int) -> None:
        try:
            store.add_trial(a_trial(0, log_tail=str(number)))
        except StorageError as error:
            assert "other content" in str(error)  # noqa: PT017 - most threads, not all
            refused.append(number)

    at_once(6, work)
    (trial,) = store.trials("r")
    assert sorted([*refused, int(trial.log_tail)]) == list(range(6))


def test_an_unconfirmed_answer_never_wins_a_race(store: Store) -> None:
    for _ in range(5):

        def work(number: int) -> None:
            kind = Conclusion.IMPROVED if number == 0 else Conclusion.UNCONFIRMED
            store.save_best(a_best(kind, f"run-{number}"))

        at_once(4, work)
        assert same(store.best(TARGET), a_best(Conclusion.IMPROVED, "run-0"))


def test_sqlite_writes_reach_the_disk_and_keep_their_references(sqlite_url: str) -> None:
    # Losing power can't be tested; what SQLite promises about it for these settings can be read.
    with open_store(sqlite_url) as store, store._session(store._engine) as session:  # type: ignore[attr-defined]
        found = {
            name: session.connection().exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


class BusyConnection:
    """Fails as SQLite does when others make the same database; they rarely meet in a test."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def execute(self, _: str) -> None:
        if self.failures:
            self.failures -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error


def test_a_database_that_others_make_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = BusyConnection(failures=2)
    _enter_wal(connection)  # type: ignore[arg-type]
    assert connection.failures == 0
    monkeypatch.setattr("autotune.storage.engine.BUSY_S", 0.1)
    with pytest.raises(sqlite3.OperationalError):
        _enter_wal(BusyConnection(failures=1000))  # type: ignore[arg-type]


def test_a_busy_sqlite_database_is_waited_for_and_then_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotune.storage.engine.BUSY_S", 0.2)
    url = f"sqlite:///{tmp_path}/autotune.db"
    with open_store(url) as one, open_store(url) as other:
        one.add_study(a_study())
        with one._session(one._writing) as session:  # type: ignore[attr-defined]
            session.connection()
            assert same(other.studies(), [a_study()]), "readers don't wait for a writer"
            with pytest.raises(StorageError, match=r"autotune\.db: database is locked") as caught:
                other.add_trial(a_trial())
        assert "another process" in caught.value.hint
        other.add_trial(a_trial())

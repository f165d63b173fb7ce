"""Contents that something else than autotune changed, and databases that fail."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.errors import StorageError
from autotune.storage import Store, open_store
from tests.conformance.records import TARGET, a_best, a_study, a_trial
from tests.conformance.test_store_migrations import execute

TRIAL = "trials[run_id='r', number=3]"
WINDOW = "windows[run_id='r', number=3, position=1]"
STUDY = "studies[run_id='r']"
BEST = "best_configurations[instance='p4d.24xlarge', nodes=1, ranks_per_node=8, workload='tiny', "

EVERYWHERE = [
    ("trials", "outcome = 'fine'", f"{TRIAL}.outcome: 'fine' is not known"),
    ("trials", "phase = ''", f"{TRIAL}.phase: '' is not known"),
    ("trials", "settings = '{}'", f"{TRIAL}.settings.micro_batch: is required but missing"),
    ("trials", "settings = '[]'", f"{TRIAL}.settings: [] has to be a mapping"),
    ("trials", "settings = '{\"micro_batch\": 0}'", f"{TRIAL}.settings.micro_batch: 0 has to be"),
    ("trials", "candidate = 'null'", f"{TRIAL}.candidate: None has to be a mapping"),
    ("trials", "measurement = '7'", f"{TRIAL}.measurement: 7 has to be a mapping"),
    ("trials", "measurement = '{}'", f"{TRIAL}.measurement.losses: is required"),
    ("trials", "log_tail = '1'", f"{TRIAL}.log_tail: 1 has to be text"),
    ("trials", "seconds = -1", f"{TRIAL}.seconds: -1.0 has to be at least 0"),
    ("trials", "seconds = 1e300", f"{TRIAL}.seconds: 1e+300 has to be at most 1e+15"),
    ("trials", "failed_rank = -1", f"{TRIAL}.failed_rank: -1 has to be at least 0"),
    ("windows", "steps = 0 WHERE position = 1", f"{WINDOW}.steps: 0 has to be at least 1"),
    ("windows", "samples = 0 WHERE position = 1", f"{WINDOW}.samples: 0 has to be at least 1"),
    ("windows", "seconds = 0 WHERE position = 1", f"{WINDOW}.seconds: 0.0 has to be at least 1e-"),
    ("studies", "nodes = 0", f"{STUDY}.spec.target.nodes: 0 has to be at least 1"),
    ("studies", "status = 'lost'", f"{STUDY}.status: 'lost' is not known"),
    ("studies", "conclusion = 'lost'", f"{STUDY}.conclusion: 'lost' is not known"),
    ("studies", "spec = '[1]'", f"{STUDY}.spec: [1] has to be a mapping"),
    ("studies", "spec = '{\"sed\": 1}'", f"{STUDY}.spec.sed: 'sed' is unknown"),
    ("studies", "machine = '{}'", f"{STUDY}.machine.instance: is required but missing"),
    ("best_configurations", "conclusion = 'x'", f"{BEST}global_batch=64].conclusion: 'x' is not"),
    ("best_configurations", "global_batch = 65", f"{BEST}global_batch=65].settings: '4 x 2 x 8"),
]
HUGE = (
    '{"losses": [], "gradient_norms": [], "peak_memory_bytes": [], "allocator_retries": 0, '
    f'"effective": {{}}, "warmup_steps": 1, "settled": true, '
    f'"communication_share": null, "build_s": 1{"0" * 400}}}'
)
SQLITE_ONLY = [
    ("trials", "settings = '{\"micro_b'", f"{TRIAL}.settings: '{{\"micro_b' is not JSON"),
    ("trials", "candidate = x'ff00'", f"{TRIAL}.candidate: b'\\xff\\x00' is not JSON"),
    ("trials", f"candidate = '{'[' * 99_999}'", f"{TRIAL}.candidate: '[[["),
    ("trials", "seconds = 'long'", f"{TRIAL}.seconds: 'long' has to be a number"),
    ("trials", "started_at = 'noon'", f"{TRIAL}.started_at: 'noon' has to be an ISO 8601 time"),
    ("trials", "started_at = '2025-01-01T00:00:00'", f"{TRIAL}.started_at: '2025-01-01T00:00:00' "),
    ("trials", "started_at = x'00'", f"{TRIAL}.started_at: b'\\x00' has to be an ISO 8601 time"),
    ("trials", "failed_rank = 'two'", f"{TRIAL}.failed_rank: 'two' has to be a whole number"),
    ("trials", "seconds = 1e999", f"{TRIAL}.seconds: inf has to be finite"),
    ("trials", "seconds = 'nan'", f"{TRIAL}.seconds: nan has to be finite"),
    ("windows", "seconds = 1e999 WHERE position = 1", f"{WINDOW}.seconds: inf has to be finite"),
    ("trials", f"measurement = '{HUGE}'", f"{TRIAL}.measurement.build_s: "),
    ("windows", "steps = 'x' WHERE position = 1", f"{WINDOW}.steps: 'x' has to be a whole number"),
    ("windows", "seconds = 'x' WHERE position = 1", f"{WINDOW}.seconds: 'x' has to be a number"),
    ("studies", "machine = ''", f"{STUDY}.machine: '' is not JSON"),
    ("studies", "created_at = 0", f"{STUDY}.created_at: '0' has to be an ISO 8601 time"),
]  # fmt: skip
READERS: dict[str, list[Callable[[Store], object]]] = {
    "studies": [lambda s: s.study("r"), lambda s: s.studies(), lambda s: s.add_study(a_study())],
    "trials": [lambda s: s.trials("r"), lambda s: s.add_trial(a_trial(3))],
    "windows": [lambda s: s.trials("r"), lambda s: s.add_trial(a_trial(3))],
    "best_configurations": [lambda s: s.bests()],
}


def check(url: str, table: str, change: str, words: str) -> None:
    with open_store(url) as store:
        store.add_study(a_study())
        store.add_trial(a_trial(3))
        store.save_best(a_best())
        execute(url, f"UPDATE {table} SET {change.replace(':', chr(92) + ':')}")
        for read in READERS[table]:
            with pytest.raises(StorageError, match=re.escape(words)) as caught:
                read(store)
            assert "changed by something else" in caught.value.hint
            assert str(caught.value).startswith(url.partition(":")[0])


@pytest.mark.parametrize(("table", "change", "words"), EVERYWHERE)
def test_a_changed_record_is_named_with_its_field(
    sqlite_url: str, table: str, change: str, words: str
) -> None:
    check(sqlite_url, table, change, words)


@pytest.mark.postgresql
@pytest.mark.parametrize(("table", "change", "words"), EVERYWHERE[::5])
def test_a_changed_record_is_named_on_postgresql_too(
    postgres_url: Callable[[], str], table: str, change: str, words: str
) -> None:
    check(postgres_url(), table, change, words)


@pytest.mark.parametrize(("table", "change", "words"), SQLITE_ONLY)
def test_what_sqlite_lets_into_a_column_is_named(
    sqlite_url: str, table: str, change: str, words: str
) -> None:
    check(sqlite_url, table, change, words)


def test_a_damaged_record_leaves_the_others_readable(sqlite_url: str) -> None:
    with open_store(sqlite_url) as store:
        store.add_study(a_study())
        store.add_study(a_study("other"))
        store.add_trial(a_trial(run_id="other"))
        execute(sqlite_url, "UPDATE studies SET machine = '' WHERE run_id = 'r'")
        assert store.study("other") is not None
        assert len(store.trials("other")) == 1
        assert store.best(TARGET) is None


def test_a_completed_trial_without_its_windows_is_named(url: str) -> None:
    with open_store(url) as store:
        store.add_study(a_study())
        store.add_trial(a_trial(3))
        execute(url, "DELETE FROM windows")
        with pytest.raises(StorageError) as caught:
            store.trials("r")
    assert f"{TRIAL}.measurement.windows: [] has to list at least one" in str(caught.value)


def test_a_missing_table_is_a_storage_error(url: str) -> None:
    with open_store(url) as store:
        execute(url, "DROP TABLE windows", "DROP TABLE trials")
        with pytest.raises(StorageError, match="trials"):
            store.trials("r")


def test_a_damaged_file_is_a_storage_error(tmp_path: Path, sqlite_url: str) -> None:
    open_store(sqlite_url).close()
    (file,) = tmp_path.glob("*.db")
    content = file.read_bytes()
    file.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    with pytest.raises(StorageError, match=r"autotune\.db: "):
        open_store(sqlite_url)


@pytest.mark.parametrize("text", ["\udcff", "\0"])
def test_text_that_no_key_can_hold_is_a_storage_error(
    postgres_url: Callable[[], str], text: str
) -> None:
    with open_store(postgres_url()) as store, pytest.raises(StorageError):
        store.add_study(a_study(text))


@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_written_to_a_file_that_has_no_name_any_more(
    tmp_path: Path, replaced: bool
) -> None:
    path, other = tmp_path / "runs.db", tmp_path / "other.db"
    open_store(f"sqlite:///{other}").close()
    with open_store(f"sqlite:///{path}") as store:
        store.add_study(a_study())
        for file in tmp_path.glob("runs.db*"):
            file.unlink()
        if replaced:
            other.rename(path)
        with pytest.raises(StorageError):
            store.add_trial(a_trial())

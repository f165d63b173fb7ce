"""Tables are made and upgraded when a store is opened, and only then."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import make_url, text

from autotune.errors import StorageError
from autotune.storage import migrate, open_store
from autotune.storage.engine import build_engine, for_writing
from autotune.storage.lease import Owner
from autotune.storage.tables import Base
from tests.conformance.conftest import NewUrl
from tests.conformance.records import a_best, a_study, a_trial, same

OLD = Path(__file__).parents[1] / "fixtures" / "storage"


def execute(url: str, *statements: str) -> None:
    engine = for_writing(build_engine(make_url(url.replace("postgresql:", "postgresql+psycopg:"))))
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def make_old(url: str, rows: Path) -> None:
    """A database of an earlier revision, with what the program of then wrote."""
    engine = for_writing(build_engine(make_url(url.replace("postgresql:", "postgresql+psycopg:"))))
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(migrate._FOLDER))
        command.upgrade(config, rows.stem)
        for statement in rows.read_text().splitlines():
            connection.exec_driver_sql(statement)
    engine.dispose()


@pytest.mark.parametrize("rows", sorted(OLD.glob("*.sql")), ids=lambda path: path.stem)
def test_an_old_database_is_upgraded_with_all_that_is_in_it(url: str, rows: Path) -> None:
    make_old(url, rows)
    with open_store(url) as store:
        assert same(store.studies(), [a_study()])
        assert same(store.trials("r"), [a_trial(0), a_trial(1, log_tail="\0\udcffx")])
        assert same(store.bests(), [a_best()])
        assert store.take_lease("r", Owner(token="t", host="h", pid=1), 60.0).left_s > 0
        store.add_trial(a_trial(2), holder="t")


def test_there_are_rows_of_every_earlier_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate._FOLDER))
    revisions = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    assert {path.stem for path in OLD.glob("*.sql")} == revisions - {migrate.REVISION}


def test_the_migrated_tables_are_the_ones_the_code_has(url: str) -> None:
    open_store(url).close()
    engine = build_engine(make_url(url.replace("postgresql:", "postgresql+psycopg:")))
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "version_table": migrate.VERSION_TABLE}
        )
        differences = compare_metadata(context, Base.metadata)
    engine.dispose()
    assert differences == []


def test_the_revision_in_the_code_is_the_newest_file() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate._FOLDER))
    assert ScriptDirectory.from_config(config).get_heads() == [migrate.REVISION]


def test_opening_again_keeps_what_is_there(url: str) -> None:
    with open_store(url) as store:
        store.add_study(a_study())
    with open_store(url) as store:
        assert same(store.studies(), [a_study()])


def test_a_database_of_a_newer_version_is_refused(url: str) -> None:
    open_store(url).close()
    execute(url, "UPDATE autotune_version SET version_num = '9999'")
    with pytest.raises(StorageError, match="'9999', made by a newer autotune") as caught:
        open_store(url)
    assert "upgrade autotune-train" in caught.value.hint


def test_tables_of_another_program_are_left_alone(url: str) -> None:
    execute(url, "CREATE TABLE trials (trial_id INTEGER)", "CREATE TABLE other (x INTEGER)")
    with pytest.raises(StorageError, match="tables trials are there") as caught:
        open_store(url)
    assert "database of its own" in caught.value.hint
    execute(url, "INSERT INTO trials (trial_id) VALUES (1)", "DROP TABLE trials")
    open_store(url).close()
    execute(url, "INSERT INTO other (x) VALUES (1)")


def test_a_failed_migration_leaves_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Exception):
        pass

    def fail(*_: object, **__: object) -> None:
        raise Broken

    with monkeypatch.context() as patch:
        # Its last statement: the tables are there by then.
        patch.setattr("alembic.runtime.migration.HeadMaintainer.update_to_step", fail)
        with pytest.raises(Broken):
            open_store(url)
    with open_store(url) as store:
        store.add_study(a_study())


def test_migrating_prints_nothing_and_leaves_logging_alone(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    root, other = logging.getLogger(), logging.getLogger("somebody.else")
    before = (root.level, list(root.handlers), other.disabled, logging.root.manager.disable)
    open_store(url).close()
    assert before == (root.level, list(root.handlers), other.disabled, logging.root.manager.disable)
    assert capfd.readouterr() == ("", "")


def test_threads_open_new_databases_at_once(new_url: NewUrl) -> None:
    urls = [new_url() for _ in range(2)] * 2
    barrier = threading.Barrier(len(urls), timeout=30)

    def open_one(url: str) -> None:
        barrier.wait()
        with open_store(url) as store:
            store.add_study(a_study())

    with ThreadPoolExecutor(len(urls)) as pool:
        list(pool.map(open_one, urls))

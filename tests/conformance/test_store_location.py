"""What --storage takes, what it says to the rest, and that it never says a password."""

import os
import re
import stat
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autotune.errors import AutotuneError, FieldError, StorageError, UserError
from autotune.storage import data_folder, default_url, open_store
from tests.conformance.conftest import PASSWORD
from tests.conformance.records import a_study, a_trial
from tests.conformance.test_store_migrations import execute

NOBODY = 65534


def refusal(url: str) -> FieldError:
    with pytest.raises(FieldError) as caught:
        open_store(url)
    assert caught.value.field == "--storage"
    return caught.value


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", ["'' is not a database's URL", "sqlite:///FILE", "postgresql://USER@HOST/NAME"]),
        ("autotune.db", ["'autotune.db' is not a database's URL"]),
        ("/tmp/autotune.db", ["is not a database's URL"]),
        ("postgresql://u:p@host:port/db", ["'postgresql://u:***@host:port/db'"]),
        ("mysql://host/db", ["'mysql'", "one of: sqlite, postgresql"]),
        ("postgres+psycopg2://h/d", ["'postgres+psycopg2'"]),
        ("sqlit:///x.db", ["did you mean 'sqlite'"]),
        ("sqlite+aiosqlite:///x.db", ["'sqlite+aiosqlite'"]),
        ("sqlite://", ["names no file"]),
        ("sqlite:///", ["names no file"]),
        ("sqlite:///:memory:", ["names no file"]),
        ("sqlite:///x.db?mode=ro", ["more than a file's path"]),
        ("sqlite://tmp/x.db", ["more than a file's path"]),
        ("sqlite:////no/such/folder/x.db", ["'/no/such/folder/x.db' is in a folder that doesn't"]),
        ("sqlite:////tmp", ["'/tmp' is not a file"]),
        ("sqlite:////dev/null", ["'/dev/null' is not a file"]),
    ],
)
def test_what_is_no_place_for_a_store_is_refused(url: str, words: list[str]) -> None:
    message = str(refusal(url))
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{PASSWORD}@host:port/db",
        f"postgresql://u:{PASSWORD}@host@host/db",
        f"postgresql://u:{PASSWORD}/x@host:y/db",
        f"mysql://u:{PASSWORD}@host/db",
        f"postgresql://u@host:port/db?password={PASSWORD}&x=y",
        f"postgresql:/u:{PASSWORD}@host/db",
        f"u:{PASSWORD}@host/db",
    ],
)
def test_a_refusal_doesnt_show_the_password(url: str) -> None:
    assert_silent(refusal(url))


def assert_silent(error: AutotuneError) -> None:
    # Neither in the message nor in those of the errors that it came from.
    assert PASSWORD not in "".join(traceback.format_exception(error))
    assert PASSWORD not in f"{error!r} {error} {error.hint} {getattr(error, 'value', '')}"


def test_a_text_file_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("studies: none\n")
    assert "is not an SQLite database" in str(refusal(f"sqlite:///{tmp_path}/x.db"))
    assert (tmp_path / "x.db").read_text() == "studies: none\n"


def test_an_empty_file_becomes_one(tmp_path: Path) -> None:
    (tmp_path / "x.db").touch()
    open_store(f"sqlite:///{tmp_path}/x.db").close()
    assert (tmp_path / "x.db").read_bytes().startswith(b"SQLite format 3\0")


@contextmanager
def as_anybody() -> Iterator[None]:
    """Without root's rights to write everywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("unwritable", ["folder", "file"])
def test_what_cant_be_written_is_refused(unwritable: str) -> None:
    # Not tmp_path, which others than its owner can't even enter.
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name), Path(name) / "x.db"
        file.touch(mode=0o444 if unwritable == "file" else 0o666)
        folder.chmod(0o777 if unwritable == "file" else 0o555)
        with as_anybody():
            error = refusal(f"sqlite:///{file}")
        assert f"{name if unwritable == 'folder' else str(file)!r}" in str(error)
        assert "isn't writable" in str(error)
        folder.chmod(0o755)


@pytest.mark.parametrize("name", ["a b.db", "100%.db", "what?.db", "ünï.db", "a#b.db"])
def test_any_file_name_can_be_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / name))
    open_store(default_url()).close()
    assert [file.name for file in (tmp_path / name).iterdir()] == ["autotune.db"]


def test_a_relative_path_stays_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with open_store("sqlite:///x.db") as store:
        monkeypatch.chdir("/")
        store.add_study(a_study())
        store._engine.dispose()  # type: ignore[attr-defined]
        assert len(store.studies()) == 1
        with pytest.raises(StorageError, match=re.escape(f"sqlite:///{tmp_path}/x.db: ")):
            store.add_study(a_study(reason="other"))
    open_store("sqlite:///~/y.db").close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.db", "y.db"]


def test_the_data_folder_follows_the_environment(tmp_path: Path) -> None:
    home, shared, own = (str(tmp_path / name) for name in ("home", "shared", "own"))
    local = tmp_path / "home/.local/share/autotune"
    everything = {"HOME": home, "XDG_DATA_HOME": shared, "AUTOTUNE_HOME": own}
    assert data_folder(everything) == tmp_path / "own"
    assert data_folder({**everything, "AUTOTUNE_HOME": ""}) == tmp_path / "shared/autotune"
    assert data_folder({"HOME": home}) == local
    assert data_folder({"HOME": home, "XDG_DATA_HOME": "relative"}) == local
    assert default_url({"HOME": home}) == f"sqlite:///{local}/autotune.db"
    assert stat.S_IMODE(local.stat().st_mode) == 0o700


def test_a_data_folder_that_cant_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        UserError, match=r"data folder '.*file/x' can't be made: Not a dir"
    ) as caught:
        data_folder({"AUTOTUNE_HOME": f"{tmp_path}/file/x"})
    assert "AUTOTUNE_HOME" in caught.value.hint


def test_a_missing_driver_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UserError, match="psycopg") as caught:
        open_store(f"postgresql://u:{PASSWORD}@host/db")
    assert caught.value.hint == "pip install 'autotune-train[postgresql]'"
    assert_silent(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_a_server_that_isnt_there_is_a_storage_error(scheme: str) -> None:
    with pytest.raises(StorageError, match=r"u:\*\*\*@127\.0\.0\.1:1/db.*refused") as caught:
        open_store(f"{scheme}://u:{PASSWORD}@127.0.0.1:1/db")
    assert "check that the server is up" in caught.value.hint
    assert_silent(caught.value)


@pytest.mark.postgresql
def test_no_error_of_postgresql_shows_the_password(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()
    wrong = url.replace(PASSWORD, f"{PASSWORD}-not")
    as_option = url.replace(f":{PASSWORD}@", "@") + f"&password={PASSWORD}"
    errors: list[StorageError] = []

    def expect(words: str, work: Callable[[], object]) -> None:
        with pytest.raises(StorageError, match=words) as caught:
            work()
        assert "postgresql+psycopg://autotune" in str(caught.value)
        errors.append(caught.value)

    expect("password authentication failed", lambda: open_store(wrong))
    expect("invalid", lambda: open_store(url + "&sslmode=odd"))
    expect("does not exist", lambda: open_store(url.replace("/postgres?", "/none?")))
    for good in (url, as_option):
        with open_store(good) as store:
            store.add_study(a_study())
            expect("no run", lambda: store.add_trial(a_trial(run_id="x")))
            expect("other content", lambda: store.add_study(a_study(reason="x")))
            execute(url, "UPDATE studies SET status = 'odd'")
            expect("odd", store.studies)
            execute(url, "UPDATE studies SET status = 'running'")
    for error in errors:
        assert_silent(error)


def test_importing_the_package_leaves_sqlalchemy_alone() -> None:
    program = (
        "import sys, autotune.model, autotune.storage as s; s.MemoryStore; s.default_url;"
        "print(sorted({'sqlalchemy', 'alembic', 'psycopg'} & set(sys.modules)));"
        "s.open_store; print('sqlalchemy' in sys.modules, 'alembic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\nTrue False\n"
    with pytest.raises(AttributeError, match="no attribute 'Sqlstore'"):
        getattr(sys.modules["autotune.storage"], "Sqlstore")  # noqa: B009 - mypy knows the module

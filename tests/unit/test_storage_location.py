"""URLs and folders that are odd rather than wrong: still an error of ours, still no password."""

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from autotune.errors import AutotuneError, FieldError, UserError
from autotune.model.secrets import redacted
from autotune.storage import data_folder, open_store

SECRET = "s3cr3t"
NOBODY = 65534


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may enter every folder: be nobody meanwhile."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def account(home: str | None) -> object:
    def getpwuid(uid: int) -> object:
        if home is None:
            raise KeyError(uid)
        return SimpleNamespace(pw_dir=home)

    return getpwuid


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "here"}])
@pytest.mark.parametrize("home", [None, "", "there"])
def test_a_user_without_a_home_is_told_so(
    environment: dict[str, str], home: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pwd, "getpwuid", account(home))
    with pytest.raises(UserError, match="HOME isn't set") as caught:
        data_folder(environment)
    assert "AUTOTUNE_HOME" in caught.value.hint


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "here"}])
def test_without_a_usable_home_it_is_the_accounts(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pwd, "getpwuid", account(str(tmp_path / "account")))
    assert data_folder(environment) == tmp_path / "account" / ".local" / "share" / "autotune"
    if "HOME" in environment:
        monkeypatch.setenv("HOME", environment["HOME"])
    else:
        monkeypatch.delenv("HOME")
    with open_store("sqlite:///~/a.db"):
        assert (tmp_path / "account" / "a.db").exists()


def test_home_goes_before_the_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", account("/nowhere"))
    folder = data_folder({"HOME": str(tmp_path)})
    assert folder == tmp_path / ".local" / "share" / "autotune"


def test_a_relative_data_folder_in_a_deleted_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UserError, match="'data' is relative to a folder that is gone"):
        data_folder({"AUTOTUNE_HOME": "data"})


def test_a_pipe_in_the_files_place_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.db")
    with pytest.raises(FieldError, match="is not a file"):
        open_store(f"sqlite:///{tmp_path}/a.db")


def test_a_missing_folder_comes_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(FieldError) as caught:
        open_store(f"sqlite:///{tmp_path}/a/b.db")
    assert caught.value.hint == f"mkdir -p {tmp_path}/a"


def test_a_folder_that_cant_be_entered_is_refused() -> None:
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        closed = Path(name) / "closed"
        closed.mkdir(mode=0o700 if os.geteuid() == 0 else 0)
        with unprivileged(), pytest.raises(FieldError, match="can't be used: Permission denied"):
            open_store(f"sqlite:///{closed}/below/a.db")
        closed.chmod(0o700)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:///~no-such-user/a.db", "home of an unknown user"),
        ("sqlite:////tmp/" + "x" * 300, "File name too long"),
        ("sqlite:////tmp/" + "x" * 300 + "/a.db", "File name too long"),
    ],
)
def test_a_path_that_the_system_refuses_is_refused(url: str, words: str) -> None:
    with pytest.raises(FieldError, match=words):
        open_store(url)


def test_a_relative_path_in_a_deleted_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FieldError, match=r"'a\.db' can't be used: No such file"):
        open_store("sqlite:///a.db")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("autocommit=true", "'autocommit' is not an option"),
        ("row_factory=x", "'row_factory' is not an option"),
        ("prepare_threshold=x", "'prepare_threshold' is not an option"),
        ("port=abc", "port: 'abc' has to be"),
        ("host=a&host=b&port=1&port=b", "port: 'b' has to be"),
    ],
)
def test_an_option_that_isnt_postgresqls_is_refused(option: str, words: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(FieldError, match=words):
        open_store(f"postgresql://u:{SECRET}@127.0.0.1:1/db?{option}")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:s3cr3t@h/d@x",
        "postgresql://u:x@y/s3cr3t@h/d",
        "postgresql:u:s3cr3t@h/d",
        "postgres:/u:s3cr3t@h/d",
        "u:x/s3cr3t@h/d",
        "postgresql://u:s3cr3t",
        "postgresql://u:s3cr3t/d",
        "postgresql://u@h:port/d?sslpassword=s3cr3t&a=b",
    ],
)
def test_a_mistyped_url_doesnt_give_its_password_away(url: str) -> None:
    with pytest.raises(AutotuneError) as caught:
        open_store(url)
    assert SECRET not in str(caught.value) + caught.value.hint
    assert "***" in str(caught.value)


def test_a_path_with_an_at_is_shown_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(FieldError, match=r"/u:p@h/a\.db\?mode=ro"):
        open_store(f"sqlite:///{tmp_path}/u:p@h/a.db?mode=ro")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:se%40cret@h:5/db", "postgresql://u:***@h:5/db"),
        ("postgresql://u@h/db?password=secret", "postgresql://u@h/db?password=***"),
        ("postgresql://u@h/db?sslpassword=secret", "postgresql://u@h/db?sslpassword=***"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("sqlite:////tmp/my runs.db", "sqlite:////tmp/my runs.db"),
    ],
)
def test_a_url_is_shown_without_its_passwords(url: str, shown: str) -> None:
    assert redacted(url) == shown

import os
import resource
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.errors import FieldError, UserError
from autotune.exporters import check_writable, write_atomically
from autotune.exporters.files import file_path
from autotune.yaml_reader import read_text

NOBODY = 65534


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def locked_folder() -> Iterator[Path]:
    """A folder that this test may not write to, also when it runs as root."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(NOBODY)
        try:
            yield folder
        finally:
            os.seteuid(user)
            folder.chmod(0o755)


def test_writes_the_text_and_nothing_else(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b" / "best.yaml", "é\n")
    assert (tmp_path / "a" / "b" / "best.yaml").read_bytes() == "é\n".encode()
    assert names(tmp_path / "a" / "b") == ["best.yaml"]


def test_mode_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "best.yaml", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "best.yaml").stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "best.yaml").symlink_to(tmp_path / "real" / "best.yaml")
    write_atomically(tmp_path / "best.yaml", "x")
    assert (tmp_path / "best.yaml").is_symlink()
    assert (tmp_path / "real" / "best.yaml").read_text() == "x"


def test_an_open_reader_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "best.yaml"
    write_atomically(path, "old")
    with path.open() as reader:
        write_atomically(path, "new")
        assert reader.read() == "old"
    assert path.read_text() == "new"


def bad_path(kind: str, folder: Path) -> Path:
    (folder / "file").write_text("kept")
    (folder / "loop").symlink_to("loop")
    (folder / "dead").symlink_to("gone/best.yaml")
    (folder / "deeper").symlink_to("dead/best.yaml")
    return {
        "a folder": folder,
        "too long": folder / "new" / ("x" * 300),
        "under a file": folder / "file" / "best.yaml",
        "a device": Path("/dev/null"),
        "in /proc": Path("/proc/best.yaml"),
        "a loop": folder / "loop",
        "a NUL": folder / "new" / "a\0b",
        "a dead end": folder / "dead",
        "below a dead end": folder / "dead" / "best.yaml",
        "a link under a dead end": folder / "deeper",
    }[kind]


@pytest.mark.parametrize("act", [check_writable, lambda path: write_atomically(path, "x")])
@pytest.mark.parametrize(
    "kind",
    ["a folder", "too long", "under a file", "a device", "in /proc", "a loop", "a NUL",
     "a dead end", "below a dead end", "a link under a dead end"],
)  # fmt: skip
def test_a_bad_path_is_said_and_nothing_is_left(kind: str, act, tmp_path: Path) -> None:
    path = bad_path(kind, tmp_path)
    with pytest.raises(UserError) as caught:
        act(path)
    assert str(path) in str(caught.value)
    assert names(tmp_path) == ["dead", "deeper", "file", "loop"]
    assert (tmp_path / "file").read_text() == "kept"
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.parametrize("text", ["out/", "new/", "new/.", "new/..", ".", "..", "/", "", "out"])
def test_a_folder_is_no_file_to_write_to(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    with pytest.raises(FieldError, match=f"--output: {text!r} is a folder") as caught:
        file_path(text, "--output")
    assert "NAME" in caught.value.hint
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("text", ["best.yaml", "new/best.yaml", "./best", "a/../b"])
def test_a_file_that_isnt_there_yet_may_be_named(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert file_path(text, "--output") == Path(text)


@pytest.mark.parametrize("act", [check_writable, lambda path: write_atomically(path, "x")])
@pytest.mark.parametrize("name", ["best.yaml", "new/best.yaml"])
def test_no_permission_is_said(act, name: str, locked_folder: Path) -> None:
    with pytest.raises(UserError, match="Permission denied"):
        act(locked_folder / name)
    assert names(locked_folder) == []


def test_check_writable_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "best.yaml").write_text("kept")
    check_writable(tmp_path / "best.yaml")
    check_writable(tmp_path / "new" / "deep" / "best.yaml")
    assert names(tmp_path) == ["best.yaml"]
    assert (tmp_path / "best.yaml").read_text() == "kept"


def test_text_that_has_no_utf8_form_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no form in UTF-8"):
        write_atomically(tmp_path / "new" / "best.yaml", "\udc80")
    assert names(tmp_path) == []


WRITE_TOO_MUCH = """
import sys
from pathlib import Path
from autotune.errors import UserError
from autotune.exporters import write_atomically
try:
    write_atomically(Path(sys.argv[1]), "x" * 100_000)
except UserError as error:
    sys.exit(f"said: {error}")
"""


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """The kernel's limit on file sizes stands in for the disk: the write stops half way."""
    path = tmp_path / "best.yaml"
    path.write_text("old")
    run = subprocess.run(
        [sys.executable, "-c", WRITE_TOO_MUCH, str(path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "said: " in run.stderr
    assert "File too large" in run.stderr
    assert names(tmp_path) == ["best.yaml"]
    assert path.read_text() == "old"


def test_read_text_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    (tmp_path / "large").write_bytes(b"x" * 11)
    with pytest.raises(UserError, match="byte 3"):
        read_text(tmp_path / "latin", 10)
    with pytest.raises(UserError, match="larger than the 10 bytes"):
        read_text(tmp_path / "large", 10)
    with pytest.raises(UserError, match="No such file"):
        read_text(tmp_path / "absent", 10)
    with pytest.raises(UserError, match="Is a directory"):
        read_text(tmp_path, 10)

"""Folders among the temporary files are removed, whatever becomes of their process."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autotune.executors import own_folder
from autotune.executors.own_folder import OwnFolder, remove_abandoned

HOLDER = """
from autotune.executors.own_folder import OwnFolder
folder = OwnFolder("agent-")
(folder.path / "trial").mkdir()
(folder.path / "trial" / "rank-0.log").touch()
print(folder.path, flush=True)
input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@contextmanager
def held() -> Iterator[tuple[Path, "subprocess.Popen[str]"]]:
    """Another process with a folder, and that folder."""
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield Path(process.stdout.readline().strip()), process
        process.kill()


def test_that_of_a_living_process_stays_and_that_of_a_killed_one_goes(temporary: Path) -> None:
    with held() as (folder, process):
        remove_abandoned()
        assert (folder / "trial" / "rank-0.log").exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
        remove_abandoned()
        assert list(temporary.iterdir()) == []


def test_a_warden_removes_what_its_launcher_has_left(temporary: Path) -> None:
    with held() as (_, process):
        process.send_signal(signal.SIGKILL)
    gone = str(2**31 - 1)  # no parent of it: its launcher is gone from the start
    command = [sys.executable, "-m", "autotune.executors.warden", gone]
    subprocess.run(command, input=b"", check=True, timeout=60)
    assert list(temporary.iterdir()) == []


def test_what_others_have_named_alike_is_theirs(temporary: Path) -> None:
    theirs = temporary / "autotune-results"
    theirs.mkdir()
    with OwnFolder() as mine:
        (temporary / "autotune-link").symlink_to(mine.path)
        remove_abandoned()
        assert mine.path.exists()
    (temporary / "autotune-file").touch()
    remove_abandoned()
    left = {path.name for path in temporary.iterdir()}
    assert left == {"autotune-results", "autotune-link", "autotune-file"}


def test_it_is_removed_with_what_is_in_it(temporary: Path) -> None:
    with OwnFolder("kind-") as folder:
        assert folder.path.name.startswith("autotune-kind-")
        assert folder.path.stat().st_mode & 0o777 == 0o700
        (folder.path / "deep" / "er").mkdir(parents=True)
        (folder.path / "link").symlink_to("/nowhere")
    assert list(temporary.iterdir()) == []


def test_what_is_kept_for_a_person_goes_some_days_later(temporary: Path) -> None:
    with OwnFolder() as folder:
        (folder.path / "rank-0.log").touch()
        folder.keep()
    remove_abandoned()
    assert (folder.path / "rank-0.log").exists()
    (marker,) = (path for path in folder.path.iterdir() if path.name != "rank-0.log")
    long_ago = marker.stat().st_mtime - own_folder.KEPT_S - 60
    os.utime(marker, (long_ago, long_ago))
    remove_abandoned()
    assert list(temporary.iterdir()) == []


def test_where_files_can_not_be_locked_it_is_not_taken_for_that_of_a_dead_process() -> None:
    def refuse(*arguments: object) -> None:
        raise OSError("no locks")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fcntl.flock", refuse)
        folder = OwnFolder()
    remove_abandoned()
    assert list(folder.path.iterdir()) == []
    assert folder.remove()

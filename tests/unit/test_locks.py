"""The lock of the machine, held by real processes."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from autotune.errors import ExecutorError, UserError
from autotune.machine_lock import FOLDER, lock_file, machine_use

HOLD = """
import sys
from autotune.machine_lock import machine_use
with machine_use(share="--share" in sys.argv) as use:
    use.announce(sys.argv[1])
    print("held", flush=True)
    sys.stdin.readline()
    print(*use.shared_with(), sep="; ", flush=True)
"""
NOBODY = 65534


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


@contextmanager
def holder(program: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()
            process.communicate()


def shared_with(process: "subprocess.Popen[str]") -> str:
    return process.communicate("\n", timeout=60)[0].strip()


def test_a_machine_in_use_is_refused_with_pid_and_run() -> None:
    with holder(HOLD, "20260102-030405-7f3a") as other:
        with pytest.raises(UserError) as caught, machine_use(share=False):
            pass
        assert f"run 20260102-030405-7f3a (pid {other.pid})" in str(caught.value)
        assert "--share-machine" in caught.value.hint


def test_a_killed_study_leaves_the_machine_free_and_nothing_of_itself() -> None:
    with holder(HOLD, "killed") as other:
        other.kill()
        other.wait()
        with machine_use(share=False) as use:
            use.announce("mine")
            assert use.shared_with() == ()


def test_who_shares_the_machine_is_told_to_both() -> None:
    with holder(HOLD, "first") as first, holder(HOLD, "second", "--share") as second:
        assert shared_with(second) == f"run first (pid {first.pid})"
        assert shared_with(first) == f"run second (pid {second.pid})"


def test_sharing_a_free_machine_is_no_sharing() -> None:
    with holder(HOLD, "alone", "--share") as alone:
        assert shared_with(alone) == ""


def test_one_that_shared_still_uses_the_machine_when_the_first_has_ended() -> None:
    with holder(HOLD, "first") as first, holder(HOLD, "second", "--share"):
        shared_with(first)
        with pytest.raises(UserError, match="in use by run second"), machine_use(share=False):
            pass


def test_the_lock_is_for_all_users_and_no_temporary_folder_of_theirs(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        with machine_use(share=False):
            path = lock_file(os.environ)
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
            assert path.parent == folder
    finally:
        os.umask(before)
    assert lock_file({"TMPDIR": "/mine"}).parent == Path("/tmp")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_lock_is_respected_in_a_sticky_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Where Linux refuses O_CREAT for a file of somebody else's (fs.protected_regular).
    with TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o1777)
        monkeypatch.setenv(FOLDER, name)
        with machine_use(share=False):
            pass
        os.seteuid(NOBODY)
        try:
            with machine_use(share=False) as use:
                use.announce("mine")
        finally:
            os.seteuid(0)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "missing"])
def test_what_cant_be_the_lock_is_said(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lock_file(os.environ)
    if kind == "link":
        (folder / "precious").write_text("kept")
        path.symlink_to(folder / "precious")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        monkeypatch.setenv(FOLDER, str(folder / "missing"))
    words = "can't be used as the machine's lock"
    with pytest.raises(ExecutorError, match=words) as caught, machine_use(share=False):
        pass
    assert FOLDER in caught.value.hint
    assert kind != "link" or (folder / "precious").read_text() == "kept"


def test_nothing_but_studies_is_read_from_the_lock() -> None:
    with holder(HOLD, "first") as first:
        with lock_file(os.environ).open("ab") as file:
            file.write(b"7 \x1b[2J evil\n\xff\xff\nnot a study\n7\n")
        with pytest.raises(UserError) as caught, machine_use(share=False):
            pass
        assert re.findall(r"run (\S+)", str(caught.value)) == ["first"]
        assert str(first.pid) in str(caught.value)

"""A PostgreSQL cluster of the tests' own, which can be stopped and started."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "correct-horse-battery"


class Cluster:
    """On a Unix socket in `folder`, for the user `autotune`."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self._programs = programs
        self._as_user = _server_user(folder)
        self._data = folder / "data"

    @property
    def url(self) -> str:
        return f"postgresql://autotune:{PASSWORD}@/postgres?host={self.folder}"

    def make(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        self._run(
            "initdb", "--pgdata", self._data, "--username", "autotune", "--pwfile", password,
            "--auth", "scram-sha-256", "--no-sync", "--no-locale", "--encoding", "UTF8",
        )  # fmt: skip

    def start(self) -> None:
        # No TCP: no port to collide on. No fsync: this cluster's data is worth nothing.
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off"
        self._run("pg_ctl", "start", "--pgdata", self._data, "--wait", "--options", options)

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "--pgdata", self._data, "--mode", "immediate")

    def _run(self, program: str, *arguments: str | Path) -> None:
        log = self.folder / "log"
        with log.open("ab") as out:
            done = subprocess.run(
                [self._programs / program, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, timeout=60, check=False, **self._as_user,
            )  # fmt: skip
        assert done.returncode == 0, log.read_text()


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Skips the test where there is no PostgreSQL."""
    programs = _programs()
    # Short and in /tmp: the path of a Unix socket has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        cluster = Cluster(folder, programs)
        cluster.make()
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder)


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if not found and not on_path:
        pytest.skip("PostgreSQL's initdb and pg_ctl aren't installed")
    return found[-1].parent if found else Path(str(on_path)).resolve().parent


def _server_user(folder: Path) -> dict[str, Any]:
    """Arguments for subprocess: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("PostgreSQL doesn't run as root, and there is no user postgres")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

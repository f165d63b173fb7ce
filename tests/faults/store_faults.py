"""The command with a store of its own, and what its stores run into."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autotune.model import StudyStatus, Trial
from autotune.storage import open_store

AUTOTUNE = [sys.executable, "-m", "autotune"]
PATCHED = Path(__file__).parent / "patched"
ENDED = re.compile(r"^\[ *(\d+)\] ")
DEADLINE_S = 200.0
SIMULATED = (
    "run", "--executor", "simulated", "--landscape", str(PATCHED / "quiet.yaml"), "--trials", "4",
    "--seed", "3", "--only", "strategy,accumulation_steps",
)  # fmt: skip
"""Trials that fail in several ways, and are run again where the machine is at fault."""
SHORT = {
    "autotune.storage.engine:BUSY_S": 0.5,
    "autotune.storage.run_records:PATIENCE_S": 2.0,
    "autotune.storage.run_records:RETRY_S": 0.2,
    "autotune.run_lease:RETRY_S": 0.2,
    "autotune.run_lease:BEAT_S": 0.3,
}
"""Seconds where the product has tens of them."""


class Command:
    """A process of the command, whose stderr is read as it comes."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def ended(self) -> list[int]:
        """Numbers of the trials that were said to have ended."""
        return [int(found[1]) for line in self.lines if (found := ENDED.match(line))]

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def wait_for(self, trials: int) -> None:
        """Return when so many more trials have ended."""
        wanted = len(self.ended) + trials
        self.wait_until(lambda: len(self.ended) >= wanted or self.process.poll() is not None)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, self.text
            if self.process.poll() is not None:
                self._reader.join(10)
                assert condition(), self.text
                return
            time.sleep(0.01)

    def finish(self, expect: int = 0) -> str:
        """Its stderr, when it has ended by itself with this exit code."""
        code = self.process.wait(DEADLINE_S)
        self._reader.join(10)
        assert code == expect, (code, self.text)
        assert "Traceback" not in self.text
        return self.text

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(10)

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            self.lines.extend(lines)


class Place:
    """A folder with a store, in which commands are run."""

    def __init__(self, folder: Path, url: str = "", home: Path | None = None) -> None:
        self.folder = folder
        self.home = home or folder / "home"
        self.url = url or f"sqlite:///{folder}/runs.db"
        self.is_patched = True
        """False for real trials, whose ranks then don't import what the patches are for."""
        self.started: list[subprocess.Popen[str]] = []

    def start(
        self, *arguments: str, trial_s: float = 0.05, constants: dict[str, float] | None = None
    ) -> Command:
        python_path = [str(PATCHED)] * self.is_patched
        python_path += filter(None, [os.environ.get("PYTHONPATH")])
        environment = {
            **os.environ,
            "AUTOTUNE_HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join(python_path),
            "AUTOTUNE_TEST_TRIAL_S": str(trial_s),
            "AUTOTUNE_TEST_CONSTANTS": json.dumps(constants or {}),
        }
        process = subprocess.Popen(
            [*AUTOTUNE, *arguments, "--storage", self.url], cwd=self.folder, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.started.append(process)
        return Command(process)

    def run(self, *arguments: str, trial_s: float = 0.0) -> str:
        return self.start(*arguments, trial_s=trial_s).finish()

    def run_ids(self) -> list[str]:
        with open_store(self.url) as store:
            return [study.run_id for study in store.studies()]

    def has_finished(self) -> bool:
        with open_store(self.url) as store:
            return store.studies()[-1].status is StudyStatus.FINISHED

    def trials(self, run_id: str = "") -> list[Trial]:
        with open_store(self.url) as store:
            return list(store.trials(run_id or store.studies()[-1].run_id))

    def aside(self) -> list[Path]:
        return list(self.home.glob("runs/*/unstored.jsonl"))

    def end_all(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


def course(trials: list[Trial]) -> list[tuple[object, ...]]:
    """What has to be the same, however often a study was interrupted: all but times of day."""
    return [
        (t.number, t.phase, t.candidate, t.outcome, t.reason, t.measurement, round(t.seconds, 6))
        for t in trials
    ]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.end_all()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    """The course of the study when nothing goes wrong."""
    place = Place(tmp_path_factory.mktemp("undisturbed"))
    place.run(*SIMULATED)
    found = course(place.trials())
    assert len(found) > 15
    return found


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file system of its own, of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    if mount("-t", "tmpfs", "-o", "size=4m", "none", str(folder)) != 0:
        pytest.skip("mounting isn't allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def mount(*arguments: str) -> int:
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """No space is left on it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        left = os.statvfs(disk).f_bavail
        while left:
            file.write(bytes(4096))
            left = os.statvfs(disk).f_bavail
    yield
    filler.unlink()


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Another program holds the SQLite file for writing."""
    other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=60)
    other.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        other.rollback()
        other.close()

"""What fault tests share: the command in a home of its own, with faults in what it starts."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import warm_command

PLANTED = Path(__file__).parent / "planted"
ROOT = Path(__file__).parents[2]


@dataclass(kw_only=True)
class Home:
    """A data folder, a working folder, and the environment of the command."""

    path: Path
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.path.mkdir(exist_ok=True)
        inherited = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
        path = [str(PLANTED), str(ROOT), *filter(None, [inherited.get("PYTHONPATH")])]
        self.environment = {
            **inherited,
            "AUTOTUNE_HOME": str(self.path / "data"),
            "PYTHONPATH": os.pathsep.join(path),
        }

    def plant(self, function: str, faults: Mapping[int | str, str] | None = None) -> None:
        """Have `module:function` of `planted/` called in every Python; `faults` by trial number."""
        self.environment["AUTOTUNE_TEST_PLANT"] = function
        self.environment["AUTOTUNE_TEST_FAULTS"] = json.dumps(faults or {})

    def start(
        self, *arguments: str, prefix: Sequence[str] = (), **options: Any
    ) -> "subprocess.Popen[str]":
        """The command, run by the command `prefix` if there is one."""
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "autotune", *arguments],
            cwd=self.path,
            env=self.environment,
            text=True,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
        )

    def call(
        self, *arguments: str, expect: int = 0, limit_s: float = 240, prefix: Sequence[str] = ()
    ) -> "subprocess.CompletedProcess[str]":
        with self.start(*arguments, prefix=prefix) as process:
            try:
                stdout, stderr = process.communicate(timeout=limit_s)
            finally:
                process.kill()
        assert process.returncode == expect, stderr + stdout
        assert "Traceback" not in stderr
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)

    def trials(self) -> list[dict[str, Any]]:
        """Those of the newest run, by number."""
        words = ("show", "latest", "--format", "json")
        shown = warm_command.call(self.path, *words, environment=self.environment)
        assert shown.returncode == 0, shown.stderr
        trials: list[dict[str, Any]] = json.loads(shown.stdout)["trials"]
        return trials

    def processes(self) -> list[int]:
        """Living processes that were started with this home, or forked from one that was."""
        mark = f"AUTOTUNE_HOME={self.environment['AUTOTUNE_HOME']}".encode()
        return [
            pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _has(pid, mark)
        ]

    def wait_until_alone(self, limit_s: float) -> float:
        """Seconds until none of its processes lives any more."""
        began = time.monotonic()
        while left := self.processes():
            assert time.monotonic() - began < limit_s, f"alive: {left}"
            time.sleep(0.05)
        return time.monotonic() - began


def _has(pid: int, mark: bytes) -> bool:
    """Whether `pid` lives and has `mark` in its environment; that of a zombie is empty."""
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(path=tmp_path)

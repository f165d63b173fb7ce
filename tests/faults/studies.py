"""The real command with faults planted into its ranks, and what it leaves behind."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.model import Trial
from autotune.storage import open_store

CHAOS = Path(__file__).parent / "chaos"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What a living controller holds."""

    descriptors: int
    memory_bytes: int


@dataclass(kw_only=True)
class Faulty:
    """`autotune` with a data folder and a folder for temporary files of its own."""

    path: Path
    samples: list[Sample] = field(default_factory=list)
    """Of the controller, while it ran."""

    def run(
        self, *arguments: str, chaos: Mapping[str, object], expect: int, limit_s: float = 560
    ) -> dict[str, Any]:
        """The answer of `autotune run`, as JSON."""
        command = [sys.executable, "-m", "autotune", "run", *arguments, "--format", "json"]
        with (
            (self.path / "stderr.txt").open("w") as log,
            subprocess.Popen(
                command,
                cwd=self.path,
                env=self._environment(chaos),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            ) as process,
        ):
            try:
                self._watch(process, limit_s)
                output = process.communicate(timeout=10)[0]
            finally:
                process.kill()
        said = (self.path / "stderr.txt").read_text()
        assert process.returncode == expect, said
        assert "Traceback" not in said
        answer: dict[str, Any] = json.loads(output)
        return answer

    def trials(self) -> list[Trial]:
        """Those of the newest run, by number; read here, since a command takes seconds to start."""
        with open_store(f"sqlite:///{self.path / 'data' / 'autotune.db'}") as store:
            return list(store.trials(store.studies()[-1].run_id))

    def processes(self) -> list[int]:
        """Living processes of it: started with this data folder, or forked from one that was."""
        mark = f"AUTOTUNE_HOME={self.path / 'data'}".encode()
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if mark in _environment_of(pid)]

    def wait_until_alone(self, limit_s: float = 10) -> None:
        deadline = time.monotonic() + limit_s
        while left := self.processes():
            assert time.monotonic() < deadline, f"alive: {left}"
            time.sleep(0.05)

    def files(self) -> set[str]:
        """Every file that there is now, without the trials' own logs and specifications."""
        found = {str(p.relative_to(self.path)) for p in self.path.rglob("*") if p.is_file()}
        kept = ("spec.json", "rank-0.log", "rank-1.log")
        return {name for name in found if not ("/trial-" in name and name.endswith(kept))}

    def _environment(self, chaos: Mapping[str, object]) -> dict[str, str]:
        (self.path / "tmp").mkdir(exist_ok=True)
        path = [str(CHAOS), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **os.environ,
            "AUTOTUNE_HOME": str(self.path / "data"),
            "TMPDIR": str(self.path / "tmp"),
            "PYTHONPATH": os.pathsep.join(path),
            "AUTOTUNE_TEST_CHAOS": json.dumps(chaos),
        }

    def _watch(self, process: "subprocess.Popen[str]", limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while process.poll() is None and time.monotonic() < deadline:
            sample = _sample(process.pid)
            self.samples += [sample] if sample else []
            time.sleep(0.02)


def _environment_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _sample(pid: int) -> Sample | None:
    try:
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return None
    return Sample(descriptors=descriptors, memory_bytes=pages * os.sysconf("SC_PAGE_SIZE"))

"""What becomes of the ranks when the process that launched them is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CONTROLLER = """
import sys
from pathlib import Path
from threading import Event
from autotune.executors.base import Launch
from autotune.executors.local import LocalExecutor
from autotune.executors.rank_starter import RankStarter
from autotune.model import DeviceKind, MeasurementPlan, TrainingSettings, TrialSpec
from autotune.model.protocol import Verdict

directory, start, *command = sys.argv[1:]
spec = TrialSpec(
    trial_id="t", workload="tiny", settings=TrainingSettings(micro_batch=1),
    device=DeviceKind.CPU, plan=MeasurementPlan(windows=1000),
)
launch = Launch(
    spec=spec, nodes=1, ranks_per_node=2, directory=Path(directory), time_limit_s=120
)
starter = RankStarter(cold=start == "cold", bare=bool(command))
executor = LocalExecutor(**({"rank_command": command} if command else {}), starter=starter)
executor.run(launch, lambda window: print("window", flush=True) or Verdict.GO, Event())
"""
FAKE = Path(__file__).parents[1] / "ranks" / "fake.py"
LIMIT_S = 10.0


def descendants(pid: int) -> list[int]:
    """Read from every thread: ranks are the children of the thread that launched them."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for file in files for child in file.read_text().split()]
    return [*children, *(pid for child in children for pid in descendants(child))]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


def wait_until_gone(pids: list[int]) -> float:
    began = time.monotonic()
    while not all(map(gone, pids)):
        assert time.monotonic() - began < LIMIT_S, f"alive: {[p for p in pids if not gone(p)]}"
        time.sleep(0.02)
    return time.monotonic() - began


FAKE_COMMAND = [sys.executable, str(FAKE), "windows_forever"]
FAMILY_COMMAND = [sys.executable, str(FAKE), "windows_with_children"]


@pytest.mark.parametrize(
    ("start", "command", "processes"),
    # The warden, the warm parent, two ranks, and with a family two children of each.
    [
        ("warm", [], 4),
        ("warm", FAKE_COMMAND, 4),
        ("cold", FAKE_COMMAND, 3),
        ("warm", FAMILY_COMMAND, 8),
        ("cold", FAMILY_COMMAND, 7),
    ],
    ids=["real-warm", "fake-warm", "fake-cold", "family-warm", "family-cold"],
)
def test_a_killed_controller_leaves_nothing(
    tmp_path: Path, start: str, command: list[str], processes: int
) -> None:
    arguments = [sys.executable, "-c", CONTROLLER, str(tmp_path / "trial"), start, *command]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment) as controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == b"window\n"
        started = descendants(controller.pid)
        assert [path.name[:9] for path in temporary.iterdir()] == ["autotune-"]
        os.kill(controller.pid, signal.SIGKILL)
        controller.wait()
    assert len(started) == processes
    wait_until_gone(started)
    assert list(temporary.iterdir()) == []

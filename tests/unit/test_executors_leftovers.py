"""What trials leave in /dev/shm, on GPUs, in processes and in folders is found, and whose it is."""

import json
import mmap
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest

from autotune.executors import node_agent
from autotune.executors.device_memory import DeviceMemory
from autotune.executors.family import Family, living_process
from autotune.executors.leftovers import is_listened_on, stays_listened_on
from autotune.executors.order import Order
from autotune.executors.orphans import end_orphans
from autotune.executors.own_folder import OwnFolder
from autotune.executors.quarantine import Quarantine
from autotune.executors.rank_starter import RankStarter
from autotune.executors.scratch import Scratch
from autotune.executors.shared_memory import SharedMemory
from autotune.model import DeviceKind, TrainingSettings, TrialSpec

SLEEP = [sys.executable, "-Sc", "import time; time.sleep(600)"]
NOBODY = 2**22 + 1
"""More than the kernel's largest pid."""


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    """In place of /dev/shm: other programs use that one."""
    (tmp_path / "before").touch()
    return tmp_path


def test_what_was_there_before_is_not_the_trials(segments: Path) -> None:
    memory = SharedMemory(segments)
    assert memory.clean([os.getpid()]) == []
    assert (segments / "before").exists()


@pytest.mark.parametrize("name", [f"torch_{NOBODY}_1_0", "nccl-Ab12Cd", "sem.mp-x"])
def test_a_segment_that_is_certainly_the_trials_is_removed(segments: Path, name: str) -> None:
    memory = SharedMemory(segments)
    (segments / name).touch()
    assert memory.clean([NOBODY]) == [f"1 segment of shared memory ({name}), removed"]
    assert not (segments / name).exists()


@pytest.mark.parametrize("name", [f"torch_{NOBODY - 1}_1_0", "psm_1", "data"])
def test_what_may_be_anothers_is_shown_and_left_alone(segments: Path, name: str) -> None:
    memory = SharedMemory(segments)
    (segments / name).touch()
    (clause,) = memory.clean([NOBODY])
    assert clause.endswith("may be another program's, not removed")
    assert (segments / name).exists()


def test_what_somebody_else_uses_is_none_of_our_business(segments: Path) -> None:
    memory = SharedMemory(segments)
    path = segments / f"torch_{NOBODY}_1_0"
    path.write_bytes(b"x" * 4096)
    with path.open("r+b") as file:
        view = mmap.mmap(file.fileno(), 4096)
    assert memory.clean([NOBODY]) == []
    assert path.exists()
    view.close()
    assert len(memory.clean([NOBODY])) == 1


def test_what_a_process_of_the_trial_had_mapped_is_the_trials(segments: Path) -> None:
    memory = SharedMemory(segments)
    path = segments / "psm_1"
    path.write_bytes(b"x" * 4096)
    with path.open("r+b") as file:
        view = mmap.mmap(file.fileno(), 4096)
    memory.note([os.getpid()])
    view.close()
    assert memory.clean([]) == ["1 segment of shared memory (psm_1), removed"]


@pytest.fixture
def marked() -> Iterator["subprocess.Popen[bytes]"]:
    environment = {**os.environ, "TMPDIR": "/tmp/autotune-test-mark"}
    with subprocess.Popen(SLEEP, env=environment, start_new_session=True) as process:
        yield process
        process.kill()


def test_a_process_that_has_left_everything_is_known_by_its_mark(
    marked: "subprocess.Popen[bytes]",
) -> None:
    family = Family((), mark="TMPDIR=/tmp/autotune-test-mark")
    deadline = time.monotonic() + 20  # until it has become the program
    while family.members(marked=True) != [marked.pid]:
        assert time.monotonic() < deadline
    assert family.members() == [marked.pid], "it is remembered"
    assert Family((), mark="TMPDIR=/tmp/autotune-test").members(marked=True) == []


def test_descendants_in_other_sessions_belong_to_the_family() -> None:
    code = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen({SLEEP!r}, start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    command = [sys.executable, "-Sc", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert Family({process.pid}).members() == sorted([process.pid, child])
        os.kill(child, 9)
        process.wait()


def test_temporary_files_are_gone_with_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    with Scratch() as scratch:
        assert scratch.path.stat().st_mode & 0o777 == 0o700
        assert scratch.mark == f"TMPDIR={scratch.variables({})['TMPDIR']}"
        (scratch.path / "folder").mkdir()
        (scratch.path / "folder" / "file").touch()
        assert scratch.remove() == ""
    assert not scratch.path.exists()
    kept = {"TORCHINDUCTOR_CACHE_DIR": "/mine"}
    assert scratch.variables(kept)["TORCHINDUCTOR_CACHE_DIR"] == "/mine"
    assert not scratch.variables({})["TORCHINDUCTOR_CACHE_DIR"].startswith(str(scratch.path))


def test_a_port_is_seen_as_long_as_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert is_listened_on(port)
        client = socket.create_connection(("127.0.0.1", port))
        connection, _ = server.accept()
    with client, connection:
        assert not is_listened_on(port), "a connection to it is left, and nobody listens"


def test_a_port_that_is_closed_soon_is_not_left_behind() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    closing = Timer(0.2, server.close)
    closing.start()
    assert not stays_listened_on(server.getsockname()[1])
    closing.join()


def test_a_warden_reads_what_was_said_before_its_launcher_died(tmp_path: Path) -> None:
    folder = tmp_path / "autotune-x"
    folder.mkdir()
    line = json.dumps({"mark": f"TMPDIR={folder}", "folder": str(folder)}) + "\n"
    nobody = str(2**31 - 1)  # no parent of this process: its launcher is gone from the start
    command = [sys.executable, "-m", "autotune.executors.warden", nobody]
    subprocess.run(command, input=line.encode(), check=True, timeout=60)
    assert not folder.exists()


def test_a_warden_apart_is_no_child_and_removes_what_is_its_launchers(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    program = (
        "import subprocess, sys, time\n"
        "from pathlib import Path\n"
        "from autotune.executors.own_folder import OwnFolder\n"
        "from autotune.executors.warden import Warden\n"
        "own, warden = OwnFolder(), Warden(apart=True)\n"
        "warden.guard('TMPDIR=' + sys.argv[1], Path(sys.argv[1]))\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],\n"
        "    env={'TMPDIR': sys.argv[1]}, start_new_session=True, stdout=subprocess.DEVNULL)\n"
        "print(warden._apart, child.pid, own.path, flush=True)\n"
        "time.sleep(600)\n"
    )
    words = [sys.executable, "-c", program, str(scratch)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as launcher:
        assert launcher.stdout is not None
        *pids, own = launcher.stdout.readline().decode().split()
        warden, child = map(int, pids)
        assert Path(own).is_dir()
        process = living_process(warden)
        assert process is not None
        assert process.parent != launcher.pid
        launcher.kill()
    deadline = time.monotonic() + 60
    while living_process(warden) or living_process(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not Path(own).exists()
    assert not scratch.exists()


def test_processes_of_a_trial_whose_launcher_died_are_ended_and_others_are_not() -> None:
    with OwnFolder() as alive, OwnFolder() as removed, OwnFolder("script-") as other:
        folders = {"alive": alive.path, "removed": removed.path, "other": other.path}
        removed.remove()
        other.remove()
        started = {
            name: subprocess.Popen(SLEEP, env={**os.environ, "TMPDIR": str(path)})
            for name, path in folders.items()
        }
        try:
            assert end_orphans() == []
            assert started["removed"].wait(timeout=20) == -9
            assert started["alive"].poll() is None
            assert started["other"].poll() is None, "no trial has such a folder"
        finally:
            for process in started.values():
                process.kill()
                process.wait()


def test_devices_are_held_as_long_as_the_process_lives() -> None:
    quarantine = Quarantine()
    assert quarantine.reason() == ""
    with subprocess.Popen(SLEEP) as process:
        quarantine.add([process.pid, NOBODY])
        assert f"pid {process.pid};" in quarantine.reason()
        process.kill()
        process.wait()
    assert quarantine.reason() == ""


class Nvml:
    """Two GPUs, of which the second gives its memory back after some looks."""

    NVMLError = RuntimeError

    def __init__(self, *, frees_after: int) -> None:
        self.looks = 0
        self.held = 0
        self.frees_after = frees_after

    def nvmlInit(self) -> None:
        self.looks += bool(self.held)
        if self.looks > self.frees_after:
            self.held = 0

    def nvmlShutdown(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetMigMode(self, handle: int) -> tuple[int, int]:
        raise RuntimeError

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return type("Memory", (), {"used": 2**30 + handle * self.held})

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        return [type("Process", (), {"pid": 77})]


@pytest.mark.parametrize(("frees_after", "clauses"), [(5, 0), (10**6, 1)])
def test_memory_of_gpus_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, frees_after: int, clauses: int
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = Nvml(frees_after=frees_after)
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    memory = DeviceMemory(nvml=nvml, clock=lambda: now[0], sleep=sleep)
    nvml.held = 40 * 2**30
    found = memory.wait_until_free()
    assert len(found) == clauses
    if clauses:
        assert found[0].startswith("40.0 GiB of memory on GPU 1, 10 s after")
        assert found[0].endswith("(in use by pid 77)")
        assert now[0] >= 10
    else:
        assert now[0] < 1


def test_an_agent_waits_for_the_memory_that_one_before_it_found_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The trial of the agent before has left it; without that agent's figures it looks usual."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = Nvml(frees_after=3)
    before = DeviceMemory(nvml=nvml).before
    nvml.held = 40 * 2**30
    watching = partial(DeviceMemory, nvml=nvml, sleep=lambda _: None)
    assert watching().wait_until_free() == []
    assert nvml.held
    monkeypatch.setattr(node_agent, "DeviceMemory", watching)
    agent = node_agent.NodeAgent(
        rank_command=["true"],
        starter=RankStarter(cold=True),
        cores=lambda: 1,
        term_s=1.0,
        memory_before=before,
    )
    spec = TrialSpec(
        trial_id="t",
        workload="tiny",
        settings=TrainingSettings(micro_batch=1),
        device=DeviceKind.CPU,
    )
    agent.get_ready(Order(spec=spec, ranks_per_node=1, directory=tmp_path), Event())
    assert not nvml.held

"""Faults of ranks, planted in the real rank program: one function each, run by every rank.

`step_NAME_3` is called before the optimizer step 3, which count from 0; `build_NAME` before the
model is built, `leave_NAME` in place of an exit handler. A fault looks at RANK itself.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from planting import faults, when_imported

RANK = lambda: int(os.environ["RANK"])  # noqa: E731 - it is a rank's only once it is forked


def plant() -> None:
    when_imported("autotune.trainers.step", _plant_in_steps)
    when_imported("autotune.trainers.rank", _plant_in_rank)


def _plant_in_steps(module: ModuleType) -> None:
    step = module.Trainer.step

    def planted(self: object, *arguments: object) -> object:
        for name in faults("step_"):
            action, _, number = name.rpartition("_")
            if self.steps_done == int(number):
                globals()[action]()
        return step(self, *arguments)

    module.Trainer.step = planted


def _plant_in_rank(module: ModuleType) -> None:
    build, leave = module.build, module.leave

    def planted_build(*arguments: object) -> object:
        for name in faults("build_"):
            globals()[name]()
        return build(*arguments)

    def planted_leave(code: int) -> None:
        for name in faults("leave_"):
            globals()[name]()
        leave(code)

    module.build, module.leave = planted_build, planted_leave


def only_1(action: Callable[[], object]) -> None:
    if RANK() == 1:
        action()


def sleep() -> None:
    only_1(sleep_here)


def sleep_here() -> None:
    time.sleep(600)


def out_of_memory() -> None:
    def raise_it() -> None:
        import torch

        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    only_1(raise_it)


def segfault() -> None:
    only_1(lambda: ctypes.string_at(0))


def sigbus() -> None:
    """By an access beyond the end of a mapped file, as of a full /dev/shm."""

    def touch() -> None:
        import mmap

        with open(f"/proc/self/fd/{os.memfd_create('short')}", "r+b") as file:
            file.truncate(mmap.PAGESIZE)
            view = mmap.mmap(file.fileno(), mmap.PAGESIZE)
            file.truncate(0)
            view[0] = 1

    only_1(touch)


def abort() -> None:
    only_1(os.abort)


def exit_0() -> None:
    only_1(lambda: os._exit(0))


def cut_message() -> None:
    """Half of a result and an exit that looks well."""
    if RANK() == 0:
        line = json.dumps({"v": 1, "type": "finished", "measurement": {"windows": []}})
        os.write(int(os.environ["AUTOTUNE_CHANNEL_FD"]), line[:40].encode())
        os._exit(0)


def stopped() -> None:
    only_1(lambda: os.kill(os.getpid(), signal.SIGSTOP))


def stopped_briefly() -> None:
    """Somebody stops the rank, and continues it two seconds later."""

    def stop() -> None:
        subprocess.Popen(["sh", "-c", f"sleep 2; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)

    only_1(stop)


def stubborn_family() -> None:
    """A rank that ignores TERM, with two children that do, one of them in a session of its own."""

    def hang() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        for own_session in (False, True):
            subprocess.Popen([sys.executable, "-Sc", code], start_new_session=own_session)
        time.sleep(600)

    only_1(hang)


def print_garbage() -> None:
    """To the log: binary garbage, zeros, long lines, and lines that look like the protocol."""
    if RANK() != 0:
        return
    os.write(1, b'{"v": 1, "type": "finished", "measurement": null}\n')
    os.write(1, b'{"v": 1, "type": "failed", "rank": 0}\n')
    mebibytes = int(os.environ.get("AUTOTUNE_TEST_MEBIBYTES", "256"))
    mebibyte = os.urandom(2**10) * 2**9 + b"\0" * 2**17 + b"x" * (2**20 - 2**19 - 2**17 - 1) + b"\n"
    for _ in range(mebibytes):
        os.write(1, mebibyte)
    os.write(1, b"\nlast words\n")


def die() -> None:
    if RANK() == 0:
        os._exit(3)


def leave_things_behind() -> None:
    """Processes in and out of the session, a segment of shared memory, temporary files."""

    def leave() -> None:
        import tempfile
        from multiprocessing.resource_tracker import getfd
        from multiprocessing.shared_memory import SharedMemory

        globals()["_held"] = SharedMemory(create=True, size=2**20)
        # Python's own process that keeps account of it lives as long as they hold its pipe.
        for own_session in (False, True):
            subprocess.Popen(["sleep", "600"], start_new_session=own_session, pass_fds=(getfd(),))
        os.write(tempfile.mkstemp()[0], b"left")
        Path(f"/dev/shm/torch_{os.getpid()}_1_0").write_bytes(b"left")

    only_1(leave)


def swallow_address_space() -> None:
    """Against a limit of the process, which raises."""

    def swallow() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28,) * 2)
        swallow_here()

    only_1(swallow)


def swallow_memory() -> None:
    """Against a limit of the control group, which kills."""
    only_1(swallow_here)


def swallow_here() -> None:
    held = []
    while True:
        held.append(b"x" * 2**24)


def frozen() -> None:
    """As if stuck in the kernel: by a control group that keeps even SIGKILL waiting."""

    def freeze() -> None:
        group = Path(os.environ["AUTOTUNE_TEST_FREEZER"])
        (group / "cgroup.procs").write_text(str(os.getpid()))
        (group / "freezer.state").write_text("FROZEN")
        time.sleep(600)

    only_1(freeze)

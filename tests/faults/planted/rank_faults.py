"""Faults of ranks, planted in the real rank program: one function each, run by every rank.

A fault is called before the optimizer step whose number, from 0, it has in its name, or before the
first one; it looks at RANK itself.
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

from planting import fault, when_imported

RANK = lambda: int(os.environ["RANK"])  # noqa: E731 - it is a rank's only once it is forked


def plant() -> None:
    when_imported("autotune.trainers.step", _plant_in_steps)
    when_imported("autotune.trainers.rank", _plant_in_rank)


def _plant_in_steps(module: ModuleType) -> None:
    step = module.Trainer.step

    def planted(self: object, *arguments: object) -> object:
        name = fault()
        at = int(name.rpartition("_")[2]) if name[-1:].isdigit() else 0
        if name.startswith("step_") and self.steps_done == at:
            globals()[name.removeprefix("step_").rstrip("0123456789").rstrip("_")]()
        return step(self, *arguments)

    module.Trainer.step = planted


def _plant_in_rank(module: ModuleType) -> None:
    build, leave = module.build, module.leave

    def planted_build(*arguments: object) -> object:
        if fault().startswith("build_"):
            globals()[fault().removeprefix("build_")]()
        return build(*arguments)

    def planted_leave(code: int) -> None:
        if fault().startswith("leave_"):
            globals()[fault().removeprefix("leave_")]()
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


def signalled(number: int) -> None:
    only_1(lambda: os.kill(os.getpid(), number))


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


def exit_well() -> None:
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


def print_gigabytes() -> None:
    """To the log: binary garbage, zeros, long lines, and lines that look like the protocol."""
    if RANK() != 0:
        return
    os.write(1, b'{"v": 1, "type": "finished", "measurement": null}\n')
    os.write(1, b'{"v": 1, "type": "failed", "rank": 0}\n')
    gigabytes = int(os.environ.get("AUTOTUNE_TEST_GIGABYTES", "1"))
    mebibyte = os.urandom(2**10) * 2**9 + b"\0" * 2**17 + b"x" * (2**20 - 2**19 - 2**17 - 1) + b"\n"
    for _ in range(gigabytes * 2**10):
        os.write(1, mebibyte)
    os.write(1, b"\nlast words\n")
    if fault().startswith("step_print_gigabytes_and_die"):
        os._exit(3)


def print_gigabytes_and_die() -> None:
    print_gigabytes()


def leave_things_behind() -> None:
    """Processes in and out of the session, a segment of shared memory, temporary files."""

    def leave() -> None:
        import tempfile
        from multiprocessing.shared_memory import SharedMemory

        for own_session in (False, True):
            subprocess.Popen(["sleep", "600"], start_new_session=own_session)
        os.write(tempfile.mkstemp()[0], b"left")
        globals()["_held"] = SharedMemory(create=True, size=2**20)
        Path(f"/dev/shm/torch_{os.getpid()}_1_0").write_bytes(b"left")
        Path("/dev/shm/nccl-test00").write_bytes(b"left")

    only_1(leave)


def swallow_memory() -> None:
    """Against a limit of the process; see the tests for one of a control group."""

    def swallow() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28,) * 2)
        held = []
        while True:
            held.append(bytearray(2**24))

    only_1(swallow)

"""A small, long-lived process that ranks are forked from, so that nothing is left to import.

    python -m autotune.trainers.warm_parent FD LAUNCHER_PID [--bare]

FD is a connected Unix socket of type SEQPACKET; every message is one JSON object. It first sends
{"ready": true}, or {"refused": "why"} and ends. Then it answers what it is asked:

    {"fork": {...}} and descriptors -> {"pid": 7, "started": 42} or {"error": "why"}
    {"status": 7, "reap": false}    -> {"status": null} while 7 runs, then its exit status

A rank that has exited stays a zombie until it is asked for with "reap", so that its number is
nobody else's before. The process ends, and its ranks do, when the launcher closes its end or dies.
It runs a single thread, which alone makes forking safe; --bare imports nothing beforehand.
"""

import fcntl
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from autotune.trainers import process
from autotune.trainers.preload import preload

MESSAGE_LIMIT_BYTES = 2**20
DESCRIPTOR_LIMIT = 16
LAUNCHER_CHECK_S = 1.0
"""Another process may hold the launcher's end of the socket open after its death."""
RANK_PROGRAM = "autotune.trainers.rank"
Program = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class ForkRequest:
    """What a forked rank becomes."""

    arguments: list[str]
    """Of the interpreter: `-m autotune.trainers.rank SPEC`, or a script and its arguments."""
    environment: dict[str, str]
    cores: list[int]
    """That it may run on."""
    numbers: list[int]
    """That its descriptors are to have."""


def main(arguments: Sequence[str]) -> None:
    """Serve until the launcher is gone; in a forked rank, go on as its program."""
    number, launcher, *options = arguments
    process.die_with_parent()  # while this process is too busy importing to notice by itself
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would have ranks reap themselves
    connection = socket.socket(fileno=int(number))
    refusal = prepare(bare="--bare" in options)
    # The signal comes as soon as the thread that started this process ends.
    process.outlive_parent_thread()
    with suppress(BrokenPipeError):
        connection.send(json.dumps({"refused": refusal} if refusal else {"ready": True}).encode())
    if refusal:
        os._exit(1)
    program = Parent(connection, int(launcher)).serve()
    program()


def prepare(*, bare: bool) -> str:
    """Import what ranks need; returns why no rank can be forked, or an empty string."""
    try:
        if not bare:
            preload()
    except Exception as error:
        return f"importing what a rank needs failed: {type(error).__name__}: {error}"
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        return f"importing what a rank needs left {threads} threads running"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "importing what a rank needs has initialized CUDA"
    # Collecting would write to, and thereby copy, every page that ranks share with this process.
    gc.collect()
    gc.freeze()
    return ""


class Parent:
    """The answering of requests."""

    def __init__(self, connection: socket.socket, launcher: int) -> None:
        self._connection = connection
        self._launcher = launcher
        self._pid = os.getpid()
        self._ranks: set[int] = set()
        """Not reaped yet."""
        connection.settimeout(LAUNCHER_CHECK_S)

    def serve(self) -> Program:
        """Answer until the launcher is gone, then exit; returns in forked ranks only."""
        while os.getppid() == self._launcher:
            try:
                content, descriptors, _, _ = socket.recv_fds(
                    self._connection, MESSAGE_LIMIT_BYTES, DESCRIPTOR_LIMIT, socket.MSG_CMSG_CLOEXEC
                )
            except TimeoutError:
                continue
            except ConnectionError:
                break
            if not content:
                break
            program = self._handle(json.loads(content), descriptors)
            if program is not None:
                return program
        self._leave()

    def _handle(self, request: dict[str, Any], descriptors: list[int]) -> Program | None:
        if "fork" in request:
            return self._fork(ForkRequest(**request["fork"]), descriptors)
        self._answer({"status": self._status(request["status"], reap=request["reap"])})
        return None

    def _fork(self, request: ForkRequest, descriptors: list[int]) -> Program | None:
        reader, writer = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            pid = -1
            answer: dict[str, object] = {"error": f"fork: {error}"}
        if pid == 0:
            self._connection.close()
            return _become(request, descriptors, self._pid, writer)
        os.close(writer)
        if pid > 0:
            self._ranks.add(pid)
            os.read(reader, 1)  # until it leads its session, or is dead
            answer = {"pid": pid, "started": process.start_ticks(pid)}
        for descriptor in (reader, *descriptors):
            os.close(descriptor)
        self._answer(answer)
        return None

    def _status(self, pid: int, *, reap: bool) -> int | None:
        keep = 0 if reap else os.WNOWAIT
        info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | keep)
        if info is None:
            return None
        if reap:
            self._ranks.discard(pid)
        return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status

    def _answer(self, answer: Mapping[str, object]) -> None:
        with suppress(ConnectionError):  # the next turn finds out
            self._connection.send(json.dumps(answer).encode())

    def _leave(self) -> NoReturn:
        """End the ranks with their children; what is in groups of its own has lost its rank."""
        for pid in self._ranks:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        os._exit(0)


def _become(
    request: ForkRequest, descriptors: list[int], parent: int, leads_session: int
) -> Program:
    """Leave nothing of the parent in this forked process but the modules it has imported."""
    try:
        os.setsid()
        process.die_with_parent()
        if os.getppid() != parent:  # it died before this process would have been told
            os._exit(1)
        os.close(leads_session)
        log, folder, *own = descriptors
        os.fchdir(folder)
        null = os.open(os.devnull, os.O_RDONLY)
        arrange_descriptors([null, log, log, *own], [0, 1, 2, *request.numbers])
        os.umask(0o077)
        os.sched_setaffinity(0, request.cores)
        os.environ.clear()
        os.environ.update(request.environment)
        return _program(request.arguments)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def arrange_descriptors(descriptors: Sequence[int], numbers: Sequence[int]) -> None:
    """Give `descriptors` these `numbers`, and close everything else."""
    above = max(*descriptors, *numbers) + 1
    # Out of the way first: one's number may be what another is to have.
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in descriptors]
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in moved:
            with suppress(OSError):  # the listing's own
                os.close(int(name))
    for fd, number in zip(moved, numbers, strict=True):
        os.dup2(fd, number, inheritable=number <= 2)
        os.close(fd)


def _program(arguments: Sequence[str]) -> Program:
    """What the interpreter would run if it were started with `arguments`."""
    if os.environ.get("PYTHONFAULTHANDLER"):
        importlib.import_module("faulthandler").enable()
    random = sys.modules.get("numpy.random")
    if random is not None:  # Python's own generator is seeded anew by fork, NumPy's isn't
        random.seed()
    if list(arguments[:2]) == ["-m", RANK_PROGRAM]:
        rank = importlib.import_module(RANK_PROGRAM)
        sys.argv = [str(rank.__file__), *arguments[2:]]
        return lambda: rank.main(arguments[2:])
    script = arguments[0]
    sys.argv = list(arguments)
    sys.path[0] = str(Path(script).absolute().parent)
    return lambda: runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])

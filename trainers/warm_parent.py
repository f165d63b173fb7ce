"""A small, long-lived process that ranks are forked from, so that nothing is left to import.

    python -m autotune.trainers.warm_parent FD LAUNCHER_PID [--bare] [--script FILE]
        [--workload MODULE FOLDER]

FD is a connected Unix socket of type SEQPACKET; every message is one JSON object. It first sends
{"ready": true}, or {"refused": "why"} and ends. Then it answers what it is asked:

    {"fork": {...}} and descriptors -> {"pid": 7, "started": 42} or {"error": "why"}
    {"status": 7, "reap": false}    -> {"status": null} while 7 runs, then its exit status

A rank that has exited stays a zombie until it is asked for with "reap", so that its number is
nobody else's before. The process ends, and its ranks do, with all that they have started, when the
launcher closes its end or dies. It runs a single thread, which alone makes forking safe; --bare
imports nothing beforehand, --workload a user's module, from FOLDER, as well, and --script what a
user's script imports of installed packages.
"""

import gc
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from autotune.trainers import process
from autotune.trainers.forked import ForkRequest, Program, become
from autotune.trainers.preload import preload

MESSAGE_LIMIT_BYTES = 2**20
DESCRIPTOR_LIMIT = 16
LEAVE_LIMIT_S = 5.0
"""For all that ranks have started to be gone; what is stuck in the kernel stays."""
LAUNCHER_CHECK_S = 1.0
"""Another process may hold the launcher's end of the socket open after its death."""


def main(arguments: Sequence[str]) -> None:
    """Serve until the launcher is gone; in a forked rank, go on as its program."""
    number, launcher, *options = arguments
    process.die_with_parent()  # while this process is too busy importing to notice by itself
    process.adopt_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would have ranks reap themselves
    connection = socket.socket(fileno=int(number))
    own = options[options.index("--workload") + 1 :] if "--workload" in options else []
    script = options[options.index("--script") + 1] if "--script" in options else ""
    refusal = prepare(bare="--bare" in options, own=own, script=script)
    # The signal comes as soon as the thread that started this process ends.
    process.outlive_parent_thread()
    with suppress(BrokenPipeError):
        connection.send(json.dumps({"refused": refusal} if refusal else {"ready": True}).encode())
    if refusal:
        os._exit(1)
    program = Parent(connection, int(launcher)).serve()
    program()


def prepare(*, bare: bool, own: Sequence[str] = (), script: str = "") -> str:
    """Import what ranks need; returns why no rank can be forked, or an empty string.

    `own` is the user's module, and its folder, if there is one, `script` the file of a script.
    """
    # Modules are made of what stays: looking for what doesn't costs a tenth of an import.
    gc.disable()
    try:
        if not bare:
            preload(*own, script=script)
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
    gc.enable()
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
        """Answer requests; returns what this process, or a rank forked from it, is to do next."""
        while os.getppid() == self._launcher:
            self._bury_orphans()
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
        return self._leave

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
            return become(request, descriptors, self._pid, writer)
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

    def _bury_orphans(self) -> None:
        """Reap what ranks have left and what has ended since."""
        for pid in process.children():
            if pid not in self._ranks:
                os.waitpid(pid, os.WNOHANG)

    def _leave(self) -> NoReturn:
        """End the ranks and all that they have started: each falls to this process in its turn."""
        for pid in self._ranks:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        deadline = time.monotonic() + LEAVE_LIMIT_S
        while (left := process.children()) and time.monotonic() < deadline:
            for pid in left:
                with suppress(PermissionError):  # it has become another user's
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.01)
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])

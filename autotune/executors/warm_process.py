"""The launcher's side of one warm parent: a process that has everything imported forks the ranks.

The other side, and the messages: `autotune.trainers.warm_parent`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

from autotune.executors.family import living_process
from autotune.executors.rank_process import Rank, RankCommand, open_log
from autotune.model import UserWorkload

READY_LIMIT_S = 120.0
"""For importing torch from a disk that hasn't been read since the machine was started."""
ANSWER_LIMIT_S = 10.0
_POLL_S = 0.05
_MESSAGE_LIMIT_BYTES = 2**16
_REQUEST_LIMIT_BYTES = 2**19
"""Half of what the warm parent takes; environments have a hundredth of it."""
_SEND_BUFFER_BYTES = 2**20
_EXIT_LIMIT_S = 1.0
"""For a warm parent that has closed its end to be gone, so that it tells how."""


class WarmParentError(Exception):
    """The warm parent can't do what it was asked for; its text says why."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final
        """Another warm parent couldn't either."""


class WarmProcess:
    """One warm parent. Not thread-safe."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        bare: bool = False,
        workload: UserWorkload | None = None,
    ) -> None:
        """Start it and don't wait; `environment` is what it is imported with."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self.ready = False
        with theirs:
            arguments = [str(theirs.fileno()), str(os.getpid())] + ["--bare"] * bare
            if workload is not None and workload.script is not None:
                arguments += ["--script", workload.file] if workload.file else []
            elif workload is not None:
                arguments += ["--workload", workload.module, workload.folder]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "autotune.trainers.warm_parent", *arguments],
                # NumPy's OpenBLAS starts its threads when it is imported.
                env={**environment, "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def why_dead(self) -> str:
        """A sentence on a process that isn't alive."""
        status = self._process.returncode or 0
        signals = {-member.value: member.name for member in signal.Signals}
        how = f"was ended by {signals.get(status, status)}" if status < 0 else f"exited ({status})"
        return f"the process that ranks are forked from, pid {self.pid}, {how}"

    def wait_until_ready(self, cancel: Event) -> None:
        """Return when it is ready, or `cancel` is set. Raises WarmParentError if it never will."""
        deadline = time.monotonic() + READY_LIMIT_S
        while not self.ready and not cancel.is_set():
            if time.monotonic() > deadline:
                self.close()
                raise WarmParentError(
                    f"importing took more than {READY_LIMIT_S:.0f} s", is_final=True
                )
            with suppress(TimeoutError):
                self._be_ready(self._receive(_POLL_S))

    def fork(self, command: RankCommand, arguments: Sequence[str]) -> Rank:
        """Start a rank; `arguments` are those of the interpreter.

        Raises WarmParentError if the warm parent can't, OSError if the log can't be made.
        """
        request = {
            "arguments": list(arguments),
            "environment": dict(command.environment),
            "cores": sorted(os.sched_getaffinity(0)),
            "numbers": list(command.descriptors),
        }
        log = open_log(command.log_path)
        try:
            folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
            try:
                answer = self._ask({"fork": request}, [log, folder, *command.descriptors])
            finally:
                os.close(folder)
        finally:
            os.close(log)
        if "error" in answer:
            raise WarmParentError(answer["error"])
        return WarmRank(self, command, pid=answer["pid"], started=answer["started"])

    def status_of(self, pid: int, *, reap: bool) -> int | None:
        """The exit status of a rank, None while it runs. Raises WarmParentError."""
        status: int | None = self._ask({"status": pid, "reap": reap})["status"]
        return status

    def close(self) -> None:
        """End it, and whatever it has forked that still runs."""
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _be_ready(self, message: Mapping[str, Any]) -> None:
        if "refused" in message:
            self.close()
            raise WarmParentError(message["refused"], is_final=True)
        self.ready = True

    def _ask(self, message: object, descriptors: Sequence[int] = ()) -> dict[str, Any]:
        content = json.dumps(message).encode()
        if len(content) > _REQUEST_LIMIT_BYTES:
            reason = f"a rank's environment of {len(content)} bytes is too large to be sent"
            raise WarmParentError(reason, is_final=True)
        try:
            self._socket.settimeout(ANSWER_LIMIT_S)
            socket.send_fds(self._socket, [content], list(descriptors))
            return self._receive(ANSWER_LIMIT_S)
        except TimeoutError:
            self.close()  # an answer that came late would be taken for that to the next question
            raise WarmParentError(f"it didn't answer within {ANSWER_LIMIT_S:.0f} s") from None
        except OSError as error:
            raise WarmParentError(str(error)) from error
        except KeyboardInterrupt:  # a second Ctrl-C: the answer may still come
            self.close()
            raise

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        """The next message. Raises TimeoutError, and WarmParentError if there will be none."""
        self._socket.settimeout(timeout_s)
        try:
            content = self._socket.recv(_MESSAGE_LIMIT_BYTES)
        except ConnectionError:
            content = b""
        if not content:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_EXIT_LIMIT_S)
            self.close()
            raise WarmParentError(self.why_dead())
        message: dict[str, Any] = json.loads(content)
        return message


class WarmRank(Rank):
    """A rank that a warm parent has forked. While the parent lives, the pid is the rank's."""

    def __init__(
        self, parent: WarmProcess, command: RankCommand, *, pid: int, started: int
    ) -> None:
        self.rank = command.rank
        self.log_path: Path = command.log_path
        self.pid = pid
        self.agent = parent.pid
        self.ended_by_us = False
        self.lost = ""
        self._parent = parent
        self._started = started
        self._status: int | None = None
        self._reaped = False

    @property
    def reaped(self) -> bool:
        if self._reaped or self._parent.alive:
            return self._reaped
        # Numbers of processes and of sessions are given to one process at a time: if it is another
        # process's now, nobody was left in this rank's session.
        process = living_process(self.pid)
        return process is not None and process.started != self._started

    def exit_status(self) -> int | None:
        if self._status is None and not self._runs():
            self._status = self._ask(reap=False)
        return self._status

    def reap(self) -> None:
        if self._reaped or self._runs():
            return
        status = self._ask(reap=True)
        self._status = status if self._status is None else self._status
        self._reaped = status is not None

    def _runs(self) -> bool:
        """Asks the kernel and not the parent, which would take turns from the ranks."""
        process = living_process(self.pid)
        return process is not None and process.started == self._started

    def _ask(self, *, reap: bool) -> int | None:
        if self._parent.alive:
            with suppress(WarmParentError):
                return self._parent.status_of(self.pid, reap=reap)
        # With its parent the kernel has killed this rank too.
        if self._status is None:
            self.lost = f"{self._parent.why_dead()}, and its ranks with it"
        return -signal.SIGKILL

"""The command as a user runs it, in a process of its own, without waiting for what it imports.

Importing takes the command a second. So it is imported once in a process of a single thread, from
which each call is forked: with a folder, an environment, files and an exit code of its own. So are
the processes that its ranks are forked from. Tests of how these start start a Python instead.
"""

import atexit
import gc
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import cache
from pathlib import Path
from select import select

from tests.forked_parents import fork_from_here, run_and_leave

ROOT = Path(__file__).parents[1]
STREAMS = ("stdin", "stdout", "stderr")
STUDIES = {"run", "resume", "verify"}
"""The commands that launch trials; their warm parents are forked (tests/forked_parents.py)."""
ANSWER_LIMIT_S = 120.0
"""With what is imported before."""
WARMING = ["knobs", "--instance", "p4d.24xlarge", "--format", "json"]


def call(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] = os.environ,
    given: str = "",
    limit_s: float = 240,
) -> "subprocess.CompletedProcess[str]":
    """`autotune` with `arguments` in `folder`. Raises TimeoutError, when it has been ended."""
    with start(folder, *arguments, environment=environment, given=given) as started:
        return started.wait(limit_s)


@contextmanager
def start(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] = os.environ,
    given: str = "",
) -> "Iterator[Started]":
    """The same under way; it is killed at the end, if it still runs."""
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name) / stream for stream in STREAMS]
        files[0].write_text(given, "utf-8")
        for file in files[1:]:
            file.touch()
        order = {
            "arguments": arguments, "folder": str(folder), "environment": dict(environment),
            "files": [str(file) for file in files],
        }  # fmt: skip
        started = Started(arguments, _Parent.started().ask(order), *files[1:])
        try:
            yield started
        finally:
            started.close()


class Started:
    """A command, told by its pid; what it prints goes to files."""

    def __init__(self, arguments: Sequence[str], pid: int, stdout: Path, stderr: Path) -> None:
        self.pid = pid
        self._arguments = arguments
        self._files = (stdout, stderr)
        self._end = os.pidfd_open(pid)
        """Readable once it has ended."""
        self._code: int | None = None

    def stderr(self) -> str:
        """What it has printed there by now."""
        return self._files[1].read_text("utf-8")

    def wait_for(self, text: str, limit_s: float = 180) -> None:
        """Until it has printed `text` on stderr."""
        deadline = time.monotonic() + limit_s
        while text not in self.stderr():
            assert time.monotonic() < deadline, self.stderr()
            assert not self._has_ended(0.05), self.stderr()

    def send_signal(self, number: signal.Signals) -> None:
        if self._code is None:  # else the pid may be another process's
            os.kill(self.pid, number)

    def wait(self, limit_s: float) -> "subprocess.CompletedProcess[str]":
        """How it ended. Raises TimeoutError."""
        if self._code is None:
            if not self._has_ended(limit_s):
                raise TimeoutError(f"the command hasn't ended after {limit_s} s")
            self._code = _Parent.started().ask({"ended": self.pid})
        stdout, stderr = (file.read_text("utf-8") for file in self._files)
        return subprocess.CompletedProcess(self._arguments, self._code, stdout, stderr)

    def close(self) -> None:
        self.send_signal(signal.SIGKILL)
        self.wait(60)
        os.close(self._end)

    def _has_ended(self, limit_s: float) -> bool:
        return bool(select([self._end], [], [], limit_s)[0])


class _Parent:
    """The process that has imported the command; it ends when its stdin is closed."""

    @classmethod
    @cache
    def started(cls) -> "_Parent":
        return cls()

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            cwd=ROOT,
            # Threads of OpenBLAS would not survive a fork.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        atexit.register(self._close)

    def ask(self, question: Mapping[str, object]) -> int:
        """The pid of the command that is started as `question` says, or the code of one's end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        assert select([self._process.stdout], [], [], ANSWER_LIMIT_S)[0], "no answer"
        return int(self._process.stdout.readline())

    def _close(self) -> None:
        with self._process:
            pass


def serve() -> None:
    """Fork a process for each order, a line of JSON, and say its pid; its exit code when asked."""
    with redirect_stdout(io.StringIO()):  # has everything imported that a command may be
        importlib.import_module("autotune.cli.main").app(WARMING, standalone_mode=False)
    gc.freeze()  # what is never looked at isn't copied
    forks_parents = False
    for line in iter(sys.stdin.readline, ""):
        question = json.loads(line)
        if "ended" in question:
            answer = os.waitstatus_to_exitcode(os.waitpid(question["ended"], 0)[1])
        else:
            if not forks_parents and STUDIES.intersection(question["arguments"][:1]):
                fork_from_here()
                gc.freeze()
                forks_parents = True
            answer = os.fork()
            if answer == 0:
                _become(question)
                run_and_leave(importlib.import_module("autotune.__main__").main)
        print(answer, flush=True)


def _become(order: dict[str, list[str]]) -> None:
    for number, file in enumerate(order["files"]):
        flags = os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY
        descriptor = os.open(file, flags, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(str(order["folder"]))
    os.environ.clear()
    os.environ.update(dict(order["environment"]))
    tempfile.tempdir = None  # TMPDIR is its own
    sys.path[0] = os.getcwd()
    sys.argv = ["autotune", *order["arguments"]]

"""The command as a user runs it, in a process of its own, without waiting for what it imports.

Importing takes the command a second. So it is imported once in a process of a single thread, from
which each call is forked: with a folder, an environment, files and an exit code of its own. Tests
of how the command starts, or is ended, start a Python instead.
"""

import atexit
import gc
import importlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

ROOT = Path(__file__).parents[1]
STREAMS = ("stdin", "stdout", "stderr")
WARMING = ["knobs", "--instance", "p4d.24xlarge", "--format", "json"]


def call(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] = os.environ,
    given: str = "",
    limit_s: float = 240,
) -> "subprocess.CompletedProcess[str]":
    """`autotune` with `arguments` in `folder`. Raises TimeoutError, when it has been ended."""
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name) / stream for stream in STREAMS]
        files[0].write_text(given, "utf-8")
        order = {
            "arguments": arguments, "folder": str(folder), "environment": dict(environment),
            "files": [str(file) for file in files],
        }  # fmt: skip
        code = _Parent.started().run(order, limit_s)
        stdout, stderr = (file.read_text("utf-8") for file in files[1:])
    return subprocess.CompletedProcess(arguments, code, stdout, stderr)


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

    def run(self, order: Mapping[str, object], limit_s: float) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        pid = self._answer(limit_s)
        try:
            return self._answer(limit_s)
        except TimeoutError:
            os.kill(pid, 9)
            self._answer(60)
            raise

    def _close(self) -> None:
        with self._process:
            pass

    def _answer(self, limit_s: float) -> int:
        assert self._process.stdout is not None
        with DefaultSelector() as selector:
            selector.register(self._process.stdout, EVENT_READ)
            if not selector.select(limit_s):
                raise TimeoutError(f"the command hasn't ended after {limit_s} s")
        return int(self._process.stdout.readline())


def serve() -> None:
    """Fork a process for each line of JSON, and write its pid, then its exit code."""
    with redirect_stdout(io.StringIO()):  # has everything imported that a command may be
        importlib.import_module("autotune.cli.main").app(WARMING, standalone_mode=False)
    gc.freeze()  # what is never looked at isn't copied
    for line in iter(sys.stdin.readline, ""):
        if not (pid := os.fork()):
            _become(json.loads(line))
            return importlib.import_module("autotune.__main__").main()
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return None


def _become(order: dict[str, list[str]]) -> None:
    for number, file in enumerate(order["files"]):
        flags = os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY
        descriptor = os.open(file, flags, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(str(order["folder"]))
    os.environ.clear()
    os.environ.update(dict(order["environment"]))
    sys.path[0] = os.getcwd()
    sys.argv = ["autotune", *order["arguments"]]

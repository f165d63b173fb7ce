"""Ends what a trial has started, if the process that launched the trial dies.

    python -m autotune.executors.warden LAUNCHER_PID [apart] < LINES

Each line is JSON: {"mark": "NAME=value", "folder": "/path"}, of the trial under way, or with both
empty once it has ended. Ranks end by themselves when their launcher is gone; their children, and
whatever else carries the mark in its environment, are ended here. Then the trial's folder is
removed, and every other one of a dead process. With `apart` it is no child of the launcher any
more, and says its pid on stdout. It imports nothing but the standard library and takes no processor
time while it waits.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autotune.executors.family import Family, LivingProcess, living_process
from autotune.executors.own_folder import remove_abandoned

CHECK_S = 1.0
"""Another process may hold the launcher's end of the pipe open after its death."""
RANKS_LEAVE_S = 1.0
"""For ranks to end by themselves, and to say so in their logs."""
LIMIT_S = 8.0
_POLL_S = 0.05
_CHUNK_BYTES = 2**16


class Warden:
    """The launcher's side: one such process, started with the first trial. Not thread-safe."""

    def __init__(self, *, apart: bool = False) -> None:
        """`apart`: it is no child of this process, where something ends all of its children."""
        self._process: subprocess.Popen[bytes] | None = None
        self._is_apart = apart
        self._apart: int | None = None
        """Pid of one that is no child."""

    def guard(self, mark: str, folder: Path) -> None:
        """Of a trial that is about to start. Raises OSError if the process can't be started."""
        if not self._is_there:
            self.close()
            self._process = _start(apart=self._is_apart)
            self._apart = _pid_of(self._process) if self._is_apart else None
        self._tell(mark, str(folder))

    @property
    def _is_there(self) -> bool:
        if self._apart is not None:
            return living_process(self._apart) is not None
        return self._process is not None and self._process.poll() is None

    def release(self) -> None:
        """The trial has ended, and nothing of it is left."""
        self._tell("", "")

    def close(self) -> None:
        """End it; it has nothing to do if the last trial was released."""
        if self._process is not None:
            with suppress(OSError):
                if self._process.stdin is not None:
                    self._process.stdin.close()
            self._process.wait()
            self._process = self._apart = None

    def _tell(self, mark: str, folder: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        with suppress(BrokenPipeError):  # somebody has killed it: the next trial has another one
            self._process.stdin.write(json.dumps({"mark": mark, "folder": folder}).encode() + b"\n")
            self._process.stdin.flush()


def _start(*, apart: bool) -> "subprocess.Popen[bytes]":
    words = ["apart"] if apart else []
    return subprocess.Popen(
        [sys.executable, "-m", "autotune.executors.warden", str(os.getpid()), *words],
        # A file such as json.py in the user's folder must not take the module's place.
        env={**os.environ, "PYTHONSAFEPATH": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if apart else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # what ends the launcher's group or terminal must not end it
    )


def _pid_of(process: "subprocess.Popen[bytes]") -> int:
    """Of a warden that has parted from `process`, which is gone then. Raises OSError."""
    line = b""
    if process.stdout is not None:
        with process.stdout as told:
            line = told.readline()
    if process.wait() or not line.strip().isdigit():
        raise OSError("the process that guards the trial can't be started")
    return int(line)


def main(arguments: Sequence[str]) -> None:
    """Wait until the launcher is gone, then end what it has left."""
    launcher, *apart = arguments
    there = living_process(int(launcher))
    if apart:
        _part()
    mark, folder = _last_trial(int(launcher), there)
    if mark:
        end(mark)
        shutil.rmtree(folder, ignore_errors=True)
    remove_abandoned()


def _part() -> None:
    """Go on as a process that isn't the launcher's child, and tell who that is."""
    if pid := os.fork():
        os.write(1, f"{pid}\n".encode())
        os._exit(0)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def end(mark: str) -> None:
    """KILL all processes with `mark`, and all that these have started, until none is left."""
    family = Family((), mark=mark)
    time.sleep(RANKS_LEAVE_S)
    deadline = time.monotonic() + LIMIT_S
    while (left := family.members(marked=True)) and time.monotonic() < deadline:
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _last_trial(launcher: int, there: LivingProcess | None) -> tuple[str, str]:
    """The trial that was under way when the launcher went; empty if there was none."""
    content = b""
    while True:
        # What it has said before it died is read in any case: this process may just be starting.
        is_gone = there is None or not _is_same(launcher, there)
        if not select.select([0], [], [], 0 if is_gone else CHECK_S)[0]:
            if is_gone:
                break
            continue
        chunk = os.read(0, _CHUNK_BYTES)
        if not chunk:
            break
        *whole, rest = (content + chunk).split(b"\n")
        content = (whole[-1] + b"\n" if whole else b"") + rest
    last = content.rpartition(b"\n")[0]
    trial = json.loads(last) if last else {"mark": "", "folder": ""}
    return trial["mark"], trial["folder"]


def _is_same(pid: int, then: LivingProcess) -> bool:
    """Whether the process lives, and its number isn't another's by now."""
    now = living_process(pid)
    return now is not None and now.started == then.started


if __name__ == "__main__":
    main(sys.argv[1:])

"""A program that the job runs on a host: what it says is passed on and kept, and all of it ends."""

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

from autotune.executors.family import living_processes

_KEPT_LINES = 2000
KILL_S = 10.0
"""Between TERM and KILL where nothing else is said."""


class Child:
    """A process, its last lines on stderr, and its descendants."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        variables: Mapping[str, str],
        folder: Path,
        is_quiet: bool = False,
    ) -> None:
        """Raises OSError if it can't be started. Of a quiet one nothing goes to stdout."""
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if is_quiet else None,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # Signals of a terminal are the parent's to pass on.
            start_new_session=True,
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def said(self) -> list[str]:
        """The last lines on stderr."""
        return list(self._lines)

    @property
    def exit_code(self) -> int | None:
        """As a shell has it; None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def wait(self, seconds: float) -> bool:
        """Whether it ends in so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        if self.exit_code is None:
            return False
        # A descendant may hold the pipe open for longer.
        self._reader.join(1.0)
        return True

    def ask(self) -> None:
        """Have it end by itself: TERM."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def end(self, patience_s: float = KILL_S) -> None:
        """TERM, and after `patience_s` KILL, to it and whatever descends from it by then."""
        family = _descendants(self._process.pid)
        if self.exit_code is None:
            self.ask()
            self.wait(patience_s)
        family |= _descendants(self._process.pid)
        for pid, started in family.items():
            process = living_processes().get(pid)
            if process is not None and process.started == started:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.wait(KILL_S)

    def _read(self) -> None:
        if (pipe := self._process.stderr) is None:
            return
        with pipe:
            for line in pipe:
                self._lines.append(line.rstrip("\n"))
                with suppress(OSError):
                    sys.stderr.write(line)
                    sys.stderr.flush()


def _descendants(pid: int) -> dict[int, int]:
    """`pid` and all that descend from it, with their start times: a pid is given again."""
    living = living_processes()
    found = {pid} & living.keys()
    while more := {p for p, process in living.items() if process.parent in found} - found:
        found |= more
    return {pid: living[pid].started for pid in found}

"""Warm parents (`autotune.trainers.warm_parent`) forked from a command that has imported PyTorch.

Importing it takes a warm parent four seconds of a processor, more than all trials of a study of
tests. A forked one has what it was told in its environment, arguments and descriptors, none of the
command's own descriptors, handlers and threads, and a pid that is the command's child.
"""

import atexit
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

WORDS = [sys.executable, "-m", "autotune.trainers.warm_parent"]


def fork_from_here() -> None:
    """Have this process fork its warm parents from now on, rather than start interpreters."""
    from autotune.executors import warm_process
    from autotune.trainers.preload import preload

    preload()
    shown: Any = SimpleNamespace(**vars(subprocess))
    shown.Popen = ForkedParent
    warm_process.subprocess = shown


class ForkedParent:
    """What `WarmProcess` needs of the `Popen` that it is to be given."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        pass_fds: Sequence[int],
        **options: object,
    ) -> None:
        assert list(arguments[:3]) == WORDS
        assert options.pop("start_new_session") is True
        assert set(options.values()) == {subprocess.DEVNULL}
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _become(arguments[3:], env, pass_fds)
        self._fd = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                os.close(self._fd)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            select.select([self._fd], [], [], timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired(WORDS, timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _become(
    arguments: Sequence[str], environment: Mapping[str, str], kept: Iterable[int]
) -> NoReturn:
    """Leave nothing of the command but its modules; returns never."""
    try:
        os.setsid()
        atexit._clear()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and int(name) not in kept:
                _close(int(name))
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None
        if environment.get("PYTHONSAFEPATH"):
            del sys.path[0]  # the folder's
        from autotune.trainers import warm_parent

        sys.argv = [str(warm_parent.__file__), *arguments]
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    run_and_leave(lambda: warm_parent.main(arguments))


def run_and_leave(program: Callable[[], object]) -> NoReturn:
    """Run the program of a forked process and end it, but don't take all modules apart.

    An interpreter does, which takes half a second where there are so many.
    """
    code = 1
    try:
        program()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


def _close(number: int) -> None:
    try:
        os.close(number)
    except OSError:  # that of the listing
        return

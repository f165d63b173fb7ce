"""One rank as a process of its own session, and the end of it and all that it has started."""

import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autotune.executors.family import Family

KILL_LIMIT_S = 10.0
_POLL_S = 0.01


@dataclass(frozen=True, kw_only=True)
class RankCommand:
    """What to start as one rank."""

    rank: int
    arguments: Sequence[str]
    environment: Mapping[str, str]
    log_path: Path
    descriptors: tuple[int, ...]
    """The only file descriptors, beside the standard three, that the rank gets."""


class Rank(Protocol):
    """A started rank.

    It leads a session, so that it and its children are found by a number that is certainly theirs:
    the leader is reaped last, and the kernel doesn't reuse its number before.
    """

    rank: int
    log_path: Path
    pid: int
    agent: int | None
    """Pid of the process that orphans of this rank fall to, if that is known."""
    ended_by_us: bool
    lost: str
    """Why nobody knows how it ended, or empty: what had started it died, and it with it."""

    @property
    def reaped(self) -> bool:
        """Its pid, and with it its session, may be somebody else's by now."""

    def exit_status(self) -> int | None:
        """None while it runs; the status, or the signal's number negated. Doesn't reap it."""

    def reap(self) -> None:
        """Collect the exit status, after which the pid is no longer ours. Never waits for it."""


class RankProcess(Rank):
    """A rank with an interpreter of its own, started by this process."""

    def __init__(self, command: RankCommand) -> None:
        self.rank = command.rank
        self.log_path = command.log_path
        self.agent = None
        self.ended_by_us = False
        self.lost = ""
        log = open_log(command.log_path)
        try:
            self._process = subprocess.Popen(
                command.arguments,
                env=dict(command.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=command.descriptors,
                start_new_session=True,
                umask=0o077,
            )
        finally:
            os.close(log)
        self.pid = self._process.pid

    @property
    def reaped(self) -> bool:
        return self._process.returncode is not None

    def exit_status(self) -> int | None:
        if self._process.returncode is not None:
            return self._process.returncode
        try:
            info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # SIGCHLD is ignored in this process: the status is lost
            return 0
        if info is None:
            return None
        return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status

    def reap(self) -> None:
        self._process.poll()


def open_log(path: Path) -> int:
    """A descriptor of a new log, for its owner alone."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)


def family_of(ranks: Collection[Rank], mark: str = "") -> Family:
    """The processes of `ranks`; `mark` is what their environment alone has, as `NAME=value`."""
    # A reaped one's number may be somebody else's by now.
    ours = [rank for rank in ranks if not rank.reaped]
    agents = {rank.agent for rank in ours if rank.agent is not None}
    return Family({rank.pid for rank in ours}, agents=agents, mark=mark)


def end_all(ranks: Collection[Rank], *, term_s: float, family: Family | None = None) -> list[int]:
    """End all ranks and whatever they have started: TERM, and `term_s` later KILL.

    Returns the pids of processes that even KILL didn't end within 10 s, which is a process stuck in
    the kernel. `family` is that of `ranks`, none of which has been reaped.
    """
    ours = [rank for rank in ranks if not rank.reaped]
    if not ours:
        return []
    for rank in ours:
        rank.ended_by_us = rank.exit_status() is None
    family = family or family_of(ours)
    left = []
    if not family.is_gone:
        left = _send_until_gone(family, signal.SIGTERM, term_s, once=True)
    if left:
        left = _send_until_gone(family, signal.SIGKILL, KILL_LIMIT_S, once=False)
    for rank in ours:
        rank.reap()
    return left


def _send_until_gone(
    family: Family, number: signal.Signals, limit_s: float, *, once: bool
) -> list[int]:
    """Signal all of `family` and wait until it is gone; returns what is left.

    KILL is sent again and again: a process may fork while the others are being read.
    """
    deadline = time.monotonic() + limit_s
    left = family.members() or family.members(marked=True)
    _send(left, number)
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        left = family.members() or family.members(marked=True)
        if not once:
            _send(left, number)
    return left


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):  # gone, or it has become another user's
            continue

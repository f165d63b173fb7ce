"""Starts ranks: forked from a warm parent where that can be, else as fresh interpreters."""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from threading import Event

from autotune.executors.rank_environment import ALWAYS, start_environment
from autotune.executors.rank_process import Rank, RankCommand, RankProcess
from autotune.executors.warden import Warden
from autotune.executors.warm_process import WarmParentError, WarmProcess
from autotune.model import UserWorkload

RANK_PROGRAM = ("-m", "autotune.trainers.rank")
MAX_FAILURES = 3
"""Of warm parents, one after the other."""
MOST_PARENTS = 2
"""Kept at once, of a few hundred MiB each: rounds of confirmation go to and fro between a candidate
and the baseline, which may want different imports."""
_LOG = logging.getLogger(__name__)

_Identity = tuple[frozenset[tuple[str, str]], str]
"""What a warm parent was started with: the environment, and the folder."""


class RankStarter:
    """Keeps warm parents, as they have to be for the ranks that are asked for. Not thread-safe."""

    def __init__(
        self,
        *,
        cold: bool = False,
        bare: bool = False,
        workload: UserWorkload | None = None,
        warden: Warden | None = None,
    ) -> None:
        """`cold`: always fresh interpreters; `bare`: the warm parent imports nothing.

        The warm parent imports the module of `workload`, too, if it can.
        """
        self.why_cold = "asked for" if cold else ""
        """Why ranks are fresh interpreters for good, or empty."""
        self._bare = bare
        self._workload = workload
        self.parent: WarmProcess | None = None
        """The warm parent that was asked for last, if there is one."""
        self.warden = warden or Warden()
        self._parents: dict[_Identity, WarmProcess] = {}
        """All that are kept, the one that was asked for last at the end."""
        self._failures = 0

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Have a warm parent start for ranks with about this environment; returns at once."""
        if self.why_cold:
            return
        imports = start_environment({**environment, **ALWAYS})
        identity = frozenset(imports.items()), _folder()
        self.parent = self._parents.pop(identity, None)
        if self.parent is not None and not self.parent.alive:
            self.parent.close()
            self.parent = None
        if self.parent is None:
            self._close_parents(all_but=MOST_PARENTS - 1)
            self.parent = self._new_parent(imports)
        if self.parent is not None:
            self._parents[identity] = self.parent

    def _new_parent(self, environment: dict[str, str]) -> WarmProcess | None:
        try:
            return WarmProcess(environment, bare=self._bare, workload=self._workload)
        except OSError as error:
            self._give_up(str(error))
            return None

    def get_ready(
        self, program: Sequence[str], environment: Mapping[str, str], cancel: Event
    ) -> None:
        """Wait until ranks that run `program` start at once, as far as they can be forked."""
        if _interpreter_arguments(program) is not None:
            self._ready_parent(environment, cancel)

    def start(self, command: RankCommand, cancel: Event) -> Rank:
        """Raises OSError if the rank can't be started. Waits while a warm parent starts."""
        arguments = _interpreter_arguments(command.arguments)
        if arguments is None and not self.why_cold:
            self._give_up(f"only Python programs can be forked, not {command.arguments[0]}")
        rank = self._fork(command, arguments, cancel) if arguments else None
        return rank or RankProcess(command)

    def close(self) -> None:
        """End the warm parents and the warden; the ranks are to be ended before."""
        self._close_parents()
        self.parent = None
        self.warden.close()

    def _close_parents(self, all_but: int = 0) -> None:
        """End those that weren't asked for for longest."""
        while len(self._parents) > all_but:
            self._parents.pop(next(iter(self._parents))).close()

    def _fork(self, command: RankCommand, arguments: Sequence[str], cancel: Event) -> Rank | None:
        while (parent := self._ready_parent(command.environment, cancel)) is not None:
            try:
                rank = parent.fork(command, arguments)
            except WarmParentError as error:
                self._note(error)
                if parent.alive:
                    return None
            else:
                self._failures = 0
                return rank
        return None

    def _ready_parent(self, environment: Mapping[str, str], cancel: Event) -> WarmProcess | None:
        """One that forks at once; None if there can't be one, or `cancel` is set before."""
        while not self.why_cold and not cancel.is_set():
            self.prepare(environment)
            parent = self.parent
            if parent is None:
                return None
            try:
                parent.wait_until_ready(cancel)
            except WarmParentError as error:
                self._note(error)
            else:
                return parent if parent.ready else None
        return None

    def _note(self, error: WarmParentError) -> None:
        if error.is_final and self._workload is not None:
            what = self._workload.module or "what the script does"
            _LOG.warning("each rank imports %s by itself: %s", what, error)
            self._workload = None
            return
        self._failures += 1
        if error.is_final or self._failures == MAX_FAILURES:
            self._give_up(str(error))
        else:
            _LOG.warning("a warm parent failed: %s", error)

    def _give_up(self, reason: str) -> None:
        self.why_cold = reason
        _LOG.warning("every rank starts as a fresh interpreter, which takes seconds: %s", reason)


def _interpreter_arguments(command: Sequence[str]) -> list[str] | None:
    """What follows the interpreter in `command`, if that can be forked."""
    program, *arguments = command
    if program != sys.executable or not arguments:
        return None
    if tuple(arguments[:2]) == RANK_PROGRAM or not arguments[0].startswith("-"):
        return arguments
    return None


def _folder() -> str:
    """Where this process is: `python -m` finds modules there."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""

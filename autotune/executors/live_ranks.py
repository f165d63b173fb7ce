"""Ranks that have run a trial and wait for another one, which so needs no launch."""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from autotune.executors.base import LaunchEnd
from autotune.executors.team import Team
from autotune.model import Binding, DeviceKind, Outcome, TrialSpec

MAX_TRIALS = 20
"""In the same ranks, so that whatever may grow in them stays small."""
MAX_FAILURES = 3
"""Of trials in ranks that had run others before."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What a started process can't change: a trial that differs in it needs other ranks."""

    environment: Mapping[str, str]
    """Of a rank, without its place."""
    folder: str
    cores: frozenset[int]
    ranks: int
    device: DeviceKind
    workload: str
    binding: Binding
    collective_timeout_s: float

    @staticmethod
    def of(spec: TrialSpec, *, ranks: int, environment: Mapping[str, str]) -> "Fit":
        """What `spec` needs here and now."""
        folder = ""
        with suppress(FileNotFoundError):
            folder = os.getcwd()
        return Fit(
            environment=dict(environment),
            folder=folder,
            cores=frozenset(os.sched_getaffinity(0)),
            ranks=ranks,
            device=spec.device,
            workload=spec.workload,
            binding=spec.settings.binding,
            collective_timeout_s=spec.collective_timeout_s,
        )


class LiveRanks:
    """Keeps one team for the next trial. Not thread-safe."""

    def __init__(self, *, wanted: bool, on_survivors: Callable[[list[int]], None]) -> None:
        """`on_survivors` is told pids of processes that even KILL doesn't end."""
        self._wanted = wanted
        self._on_survivors = on_survivors
        self._kept: tuple[Team, Fit] | None = None
        self._failures = 0

    @property
    def may_keep(self) -> bool:
        """Whether ranks are to wait for another trial after theirs."""
        return self._wanted and self._failures < MAX_FAILURES

    def take(self, fit: Fit | None) -> Team | None:
        """The team, if it can run a trial that needs `fit`; if not, it is ended."""
        if self._kept is None:
            return None
        team, its_fit = self._kept
        if fit == its_fit and team.trials < MAX_TRIALS and team.is_sound:
            self._kept = None
            return team
        self.end()
        return None

    def keep(self, team: Team, fit: Fit) -> None:
        """`team` has finished a trial and waits."""
        team.trials += 1
        self._kept = (team, fit)

    def end(self) -> None:
        """End the team that is kept."""
        if self._kept is not None:
            team, _ = self._kept
            self._kept = None
            self._on_survivors(team.close())

    def judge(self, earlier: int, end: LaunchEnd) -> LaunchEnd:
        """What `end` is worth in ranks with `earlier` trials: a failure counts in fresh ones only.

        What was left of an earlier trial may have been its reason. As the machine's fault it is run
        again, and no live rank is left that it could run in.
        """
        fine = end.outcome in (Outcome.COMPLETED, Outcome.PRUNED, Outcome.CANCELLED)
        if fine or earlier == 0:
            return end
        self._failures += 1
        if self._failures == MAX_FAILURES:
            _LOG.warning(
                "every trial starts ranks of its own: %d failed in live ones", MAX_FAILURES
            )
        reason = f"{end.outcome} in ranks that had run {earlier} before: {end.reason}"
        return replace(end, outcome=Outcome.ENVIRONMENT, reason=reason)

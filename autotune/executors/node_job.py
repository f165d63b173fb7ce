"""One trial on one node, from its start to the end of its processes."""

from collections.abc import Sequence
from pathlib import Path

from autotune.executors.channel import Closed
from autotune.executors.host_limits import oom_kills
from autotune.executors.kernel_log import KernelLog
from autotune.executors.launch_facts import NodesEnd, RankExit
from autotune.executors.live_ranks import Fit
from autotune.executors.log_cap import KEPT_WELL_BYTES, LogCap
from autotune.executors.log_tail import log_end, log_tail
from autotune.executors.nodes import Exited, NodeEvent
from autotune.executors.rank_process import Rank
from autotune.executors.team import Team

_ROOT = Path("/")
_POLL_EXIT_S = 0.01
"""Once a rank has closed its channel, its exit is a matter of milliseconds."""
_MOST_TURNS = 100
"""Of reading what ranks that have exited had sent: a child of theirs may go on sending."""


class NodeJob:
    """The trial that is under way."""

    def __init__(self, *, team: Team, fit: Fit | None) -> None:
        self.team = team
        self.fit = fit
        self.stays = False
        self._kills_before = oom_kills(_ROOT)
        self._kernel = KernelLog().__enter__()
        self._logs: LogCap | None = None
        self._exited: set[int] = set()
        self._leaving: set[int] = set()

    def follow_logs(self) -> None:
        """Once all ranks have theirs."""
        self._logs = LogCap([rank.log_path for rank in self.team.ranks]).__enter__()

    def stop_following(self) -> None:
        if self._logs is not None:
            self._logs.finish()
        self._kernel.close()

    def trim_logs(self) -> None:
        if self._logs is not None:
            self._logs.trim(KEPT_WELL_BYTES)

    def wait(self, timeout_s: float) -> list[NodeEvent]:
        """Messages, and then the exits that follow them."""
        patience_s = min(timeout_s, _POLL_EXIT_S) if self._leaving else timeout_s
        events: list[NodeEvent] = list(self.team.channels.wait(patience_s))
        exits = [exited for rank in self.team.ranks if (exited := self._exit_of(rank))]
        if exits:
            events += self._last_words()
        self._leaving |= {event.rank for event in events if isinstance(event, Closed)}
        self._exited |= {exited.rank for exited in exits}
        self._leaving -= self._exited
        return [*events, *exits]

    def ended(self, survivors: Sequence[int]) -> NodesEnd:
        """What is known once the processes are gone."""
        kernel_log = self._kernel.text()
        self.stop_following()
        return NodesEnd(
            ranks=tuple(_exit(rank) for rank in self.team.ranks),
            survivors=tuple(survivors),
            oom_kills=oom_kills(_ROOT) - self._kills_before,
            kernel_log=kernel_log,
        )

    def _exit_of(self, rank: Rank) -> Exited | None:
        """If it has just exited."""
        if rank.rank in self._exited:
            return None
        status = rank.exit_status()
        return None if status is None else Exited(rank=rank.rank, exit_status=status)

    def _last_words(self) -> list[NodeEvent]:
        """What was sent before is to be heard before, a result in particular."""
        events: list[NodeEvent] = []
        for _ in range(_MOST_TURNS):
            more = self.team.channels.wait(0)
            if not more:
                break
            events += more
        return events


def _exit(rank: Rank) -> RankExit:
    return RankExit(
        rank=rank.rank,
        exit_status=rank.exit_status(),
        ended_by_us=rank.ended_by_us,
        lost=rank.lost,
        log_path=str(rank.log_path),
        log_tail=log_tail(rank.log_path),
        log_end=log_end(rank.log_path),
    )

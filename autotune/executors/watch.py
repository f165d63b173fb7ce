"""Watching one trial: messages in, verdicts out, until it is over or has to be ended."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

from autotune.executors.base import OnWindow
from autotune.executors.channel import Channels, Closed, Fault, Received
from autotune.executors.channel import Event as ChannelEvent
from autotune.executors.inspection import inspect
from autotune.executors.launch_facts import Halt, RankEnd
from autotune.executors.log_tail import log_end, log_tail
from autotune.executors.pace import Pace, Patience
from autotune.executors.rank_process import Rank
from autotune.executors.standing import Standing
from autotune.model import Measurement, MeasurementPlan
from autotune.model.protocol import (
    Answer,
    Failed,
    FailureKind,
    Finished,
    Progress,
    Ready,
    Started,
    Verdict,
    WindowDone,
)

_POLL_S = 0.05
_POLL_EXIT_S = 0.01
"""Once a rank has closed its channel, its exit is a matter of milliseconds."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long a trial is waited for, in seconds."""

    time_s: float = 600.0
    start_s: float = 120.0
    """For all ranks to have met."""
    first_step_s: float = 300.0
    """From then on, for the first step."""
    slack_s: float = 20.0
    """For every later sign of life, beyond what is expected of it (see Pace)."""
    cause_s: float = 3.0
    """For the other ranks, once one has lost its peers: one of them is the cause and may need a
    moment to say so, or to write its core."""
    grace_s: float = 1.0
    """For the other ranks, once one has failed by itself: to exit by themselves, which is much
    shorter than the collective timeout that they may be waiting for."""
    exit_s: float = 10.0
    """For the other ranks, once the result is there or one has left well."""
    term_s: float = 2.0
    """Between TERM and KILL."""


@dataclass
class _Seen:
    """What has been seen of one rank."""

    started: bool = False
    failed: Failed | None = None
    fault: str = ""
    closed: bool = False
    exit_status: int | None = None
    trouble: int | None = None
    trouble_after_result: bool = False
    ready: bool = False


class Watch:
    """One trial's event loop and what it has seen. Runs in the caller's thread."""

    def __init__(
        self,
        ranks: Sequence[Rank],
        channels: Channels,
        limits: Limits,
        on_window: OnWindow,
        cancel: Event,
        *,
        plan: MeasurementPlan,
    ) -> None:
        self.measurement: Measurement | None = None
        self.windows = 0
        self.stopped = False
        self.halt: Halt | None = None
        self._ranks = ranks
        self._channels = channels
        self._limits = limits
        self._on_window = on_window
        self._cancel = cancel
        self._seen = [_Seen() for _ in ranks]
        self._troubles = 0
        self._planned_windows = plan.windows
        self.pace = Pace(
            first_step_s=limits.first_step_s, window_s=plan.window_s, slack_s=limits.slack_s
        )
        self._patience = Patience()
        self._settle_by: float | None = None

    @property
    def seconds(self) -> float:
        """Since the watch began, without those in which it stood still."""
        return self._patience.now_s

    def standings(self) -> tuple[Standing, ...]:
        """What the ranks are at, if the trial hangs; to be asked for while they still live."""
        if not self._hangs:
            return ()
        found = inspect(self._ranks, self._channels)
        self._take(self._channels.wait(0))  # a rank may have given up meanwhile, and says so
        return found

    @property
    def _hangs(self) -> bool:
        """Whether ranks wait for each other, or for too long: what they are at is worth knowing."""
        waited = any(s.failed and s.failed.kind is FailureKind.COLLECTIVE for s in self._seen)
        return waited or self.halt in (Halt.NO_PROGRESS, Halt.NEVER_STARTED, Halt.TIME_LIMIT)

    def until_over(self) -> None:
        """Return when every rank has exited, or when those that haven't are to be ended.

        Or when all have done well and wait for another trial.
        """
        self._patience.turn(time.monotonic())
        while not (self.all_ready or self._is_over()):
            events = self._channels.wait(self._patience_s())
            self._patience.turn(time.monotonic())
            self._take(events)
            self._note_exits()
            if not events and self._all_exited():
                return
        self._take(self._channels.wait(0))

    @property
    def all_ready(self) -> bool:
        """Nothing went wrong, and the ranks may run another trial."""
        quiet = self.measurement is not None and self._troubles == 0 and self.halt is None
        return quiet and all(seen.ready and not seen.closed for seen in self._seen)

    def ends(self) -> tuple[RankEnd, ...]:
        """What is known of each rank, to be asked for once the processes are gone."""
        return tuple(self._end(rank) for rank in self._ranks)

    def _is_over(self) -> bool:
        self.halt = self._halt()
        if self.halt is not None:
            return True
        return self._settle_by is not None and time.monotonic() >= self._settle_by

    def _halt(self) -> Halt | None:
        if self._cancel.is_set():
            return Halt.CANCEL
        if self._settle_by is not None:
            return None
        started = all(seen.started for seen in self._seen)
        if not started and self.seconds >= min(self._limits.start_s, self._limits.time_s):
            return Halt.NEVER_STARTED
        if self.pace.is_overdue(self.seconds):
            return Halt.NO_PROGRESS
        return Halt.TIME_LIMIT if self.seconds >= self._limits.time_s else None

    def _patience_s(self) -> float:
        """Short while a rank is about to exit, or all have and their last words are read."""
        leaving = any(seen.closed and seen.exit_status is None for seen in self._seen)
        if self._all_exited():
            return 0
        return _POLL_EXIT_S if leaving else _POLL_S

    def _all_exited(self) -> bool:
        return all(seen.exit_status is not None for seen in self._seen)

    def _note_exits(self) -> None:
        exited = [rank for rank in self._ranks if self._has_just_exited(rank)]
        if exited:
            # What was sent before is to be heard before, a result in particular.
            self._take(self._channels.wait(0))
        for rank in exited:
            seen = self._seen[rank.rank]
            if seen.exit_status == 0:
                self._settle_within(self._limits.exit_s)
            else:
                self._trouble(seen, self._limits.grace_s)

    def _has_just_exited(self, rank: Rank) -> bool:
        seen = self._seen[rank.rank]
        if seen.exit_status is not None:
            return False
        seen.exit_status = rank.exit_status()
        return seen.exit_status is not None

    def _take(self, events: Sequence[ChannelEvent]) -> None:
        for event in events:
            seen = self._seen[event.rank]
            match event:
                case Received(rank=rank, message=message):
                    self._hear(rank, seen, message)
                case Fault(reason=reason):
                    self._fault(seen, reason)
                case Closed():
                    seen.closed = True

    def _hear(self, rank: int, seen: _Seen, message: object) -> None:
        match message:
            case Started(rank=named) if named == rank:
                seen.started = True
                if all(one.started for one in self._seen):
                    self.pace.start(self.seconds)
            case Progress(steps=steps) if rank == 0:
                self.pace.step(self.seconds, steps)
            case Failed(rank=named) if named == rank:
                seen.failed = seen.failed or message
                is_victim = message.kind is FailureKind.COLLECTIVE
                self._trouble(seen, self._limits.cause_s if is_victim else self._limits.grace_s)
            case WindowDone(window=window) if rank == 0:
                self.windows += 1
                verdict = self._on_window(window)
                is_last = verdict is not Verdict.GO or self.windows >= self._planned_windows
                self.pace.window(self.seconds, is_last=is_last)
                self._answer(rank, seen, verdict)
            case Finished(measurement=measurement) if rank == 0:
                self.measurement = measurement
                self._settle_within(self._limits.exit_s)
            case Ready(rank=named) if named == rank:
                seen.ready = True
            case _:
                self._fault(seen, f"sent a message that isn't its to send: {message!r:.200}")

    def _answer(self, rank: int, seen: _Seen, verdict: Verdict) -> None:
        self.stopped |= verdict is Verdict.STOP
        fault = self._channels.send(rank, Answer(verdict=verdict))
        if fault is not None:
            self._fault(seen, fault.reason)

    def _fault(self, seen: _Seen, reason: str) -> None:
        seen.fault = seen.fault or reason
        self._trouble(seen, self._limits.grace_s)

    def _trouble(self, seen: _Seen, grace_s: float) -> None:
        if seen.trouble is None:
            seen.trouble = self._troubles
            seen.trouble_after_result = self.measurement is not None
            self._troubles += 1
        self._settle_within(grace_s)

    def _settle_within(self, seconds: float) -> None:
        """The ranks that still run get `seconds` more, or what they have been given before."""
        by = time.monotonic() + seconds
        self._settle_by = by if self._settle_by is None else min(by, self._settle_by)

    def _end(self, rank: Rank) -> RankEnd:
        seen = self._seen[rank.rank]
        status = rank.exit_status()
        return RankEnd(
            rank=rank.rank,
            exit_status=status,
            ended_by_us=rank.ended_by_us,
            lost=rank.lost,
            started=seen.started,
            failed=seen.failed,
            fault=seen.fault,
            trouble=seen.trouble,
            trouble_after_result=seen.trouble_after_result,
            log_path=str(rank.log_path),
            log_tail=log_tail(rank.log_path),
            log_end="" if status == 0 else log_end(rank.log_path),
        )

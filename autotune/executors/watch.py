"""Watching one trial: messages in, verdicts out, until it is over or has to be ended."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event

from autotune.executors.base import OnWindow
from autotune.executors.channel import Closed, Fault, Received
from autotune.executors.launch_facts import Halt, NodeLoss, RankEnd, RankExit
from autotune.executors.nodes import Exited, Lost, NodeEvent, Nodes
from autotune.executors.pace import Pace, Patience
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
        nodes: Nodes,
        ranks: int,
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
        self.loss: NodeLoss | None = None
        self._nodes = nodes
        self._limits = limits
        self._on_window = on_window
        self._cancel = cancel
        self._seen = [_Seen() for _ in range(ranks)]
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
        found = self._nodes.inspect()
        self._take(self._nodes.wait(0))  # a rank may have given up meanwhile, and says so
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
            events = self._nodes.wait(_POLL_S)
            self._patience.turn(time.monotonic())
            self._take(events)
            if self._all_exited():
                return
        self._take(self._nodes.wait(0))

    @property
    def all_ready(self) -> bool:
        """Nothing went wrong, and the ranks may run another trial."""
        quiet = self.measurement is not None and self._troubles == 0 and self.halt is None
        return quiet and all(seen.ready and not seen.closed for seen in self._seen)

    def ends(self, exits: Sequence[RankExit]) -> tuple[RankEnd, ...]:
        """What is known of each rank, once it is known how their processes ended."""
        return tuple(self._end(one) for one in exits)

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

    def _all_exited(self) -> bool:
        return all(seen.exit_status is not None for seen in self._seen)

    def _note_exit(self, seen: _Seen, exit_status: int) -> None:
        seen.exit_status = exit_status
        if exit_status == 0:
            self._settle_within(self._limits.exit_s)
        else:
            self._trouble(seen, self._limits.grace_s)

    def _take(self, events: Sequence[NodeEvent]) -> None:
        for event in events:
            match event:
                case Received(rank=rank, message=message):
                    self._hear(rank, self._seen[rank], message)
                case Fault(rank=rank, reason=reason):
                    self._fault(self._seen[rank], reason)
                case Closed(rank=rank):
                    self._seen[rank].closed = True
                case Exited(rank=rank, exit_status=status):
                    self._note_exit(self._seen[rank], status)
                case Lost(loss=loss):
                    self.loss = self.loss or loss
                    self._settle_within(0)

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
        fault = self._nodes.send(rank, Answer(verdict=verdict))
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

    def _end(self, one: RankExit) -> RankEnd:
        seen = self._seen[one.rank]
        return RankEnd(
            rank=one.rank,
            exit_status=one.exit_status,
            ended_by_us=one.ended_by_us,
            lost=one.lost,
            started=seen.started,
            failed=seen.failed,
            fault=seen.fault,
            trouble=seen.trouble,
            trouble_after_result=seen.trouble_after_result,
            log_path=one.log_path,
            log_tail=one.log_tail,
            log_end="" if one.exit_status == 0 else one.log_end,
        )

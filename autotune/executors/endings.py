"""From what was seen of a trial's ranks to how the trial ended. Pure."""

import signal
from dataclasses import dataclass
from enum import StrEnum

from autotune.errors import quoted
from autotune.executors.base import LaunchEnd
from autotune.executors.log_tail import last_line
from autotune.model import Measurement, Outcome
from autotune.model.protocol import Failed, FailureKind


class Halt(StrEnum):
    """Why the launcher ended a trial whose ranks hadn't failed."""

    CANCEL = "cancel"
    TIME_LIMIT = "time_limit"
    NEVER_STARTED = "never_started"


@dataclass(frozen=True, kw_only=True)
class RankEnd:
    """What is known of one rank."""

    rank: int
    exit_status: int | None
    """A signal's number negated; None if even KILL didn't end it."""
    ended_by_us: bool
    """It ran until the launcher ended it."""
    started: bool
    lost: str = ""
    """Why it ended by no fault of the trial and nobody knows how, or empty."""
    failed: Failed | None = None
    fault: str = ""
    """What was wrong with what it sent, or empty."""
    trouble: int | None = None
    """Position of its first sign of trouble among those of all ranks; None if there was none."""
    trouble_after_result: bool = False
    log_path: str = ""
    log_tail: str = ""

    @property
    def died(self) -> bool:
        """It ended by itself and not well."""
        return not self.ended_by_us and self.exit_status not in (0, None)

    @property
    def left(self) -> bool:
        """It ended by itself, well, and sent nothing."""
        return not self.ended_by_us and self.exit_status == 0 and self.failed is None

    @property
    def waited_in_vain(self) -> bool:
        return self.failed is not None and self.failed.kind is FailureKind.COLLECTIVE


@dataclass(frozen=True, kw_only=True)
class LaunchFacts:
    """What is known of a launch whose processes are all gone."""

    ranks: tuple[RankEnd, ...]
    measurement: Measurement | None
    windows: int
    """That rank 0 has closed."""
    planned_windows: int
    stopped: bool
    """The loop answered a window with STOP."""
    halt: Halt | None
    seconds: float
    has_environment: bool
    """The candidate sets variables, so it may be the reason why ranks never meet."""
    oom_kills: int
    """Processes that the kernel ended for want of memory while the trial ran."""
    survivors: tuple[int, ...] = ()
    """Pids that even KILL didn't end."""


def decide(facts: LaunchFacts) -> LaunchEnd:
    """The launch's end, with the rank that is the cause and its log."""
    if facts.survivors:
        return _survived(facts)
    cause = _cause(facts)
    if cause is not None:
        return _end(facts, *_explain(cause, facts), cause)
    if facts.measurement is not None:
        return _measured(facts, facts.measurement)
    if facts.halt is Halt.CANCEL:
        return _end(facts, Outcome.CANCELLED, "ended because the run was stopped", None)
    lost = [end for end in facts.ranks if end.lost]
    if lost:
        return _end(facts, Outcome.ENVIRONMENT, lost[0].lost, None)
    victim_of = _absent(facts)
    if victim_of is not None:
        return victim_of
    if facts.halt is Halt.TIME_LIMIT:
        done = f"{facts.windows} of {facts.planned_windows} windows"
        reason = f"not done after {facts.seconds:.0f} s, with {done} measured"
        return _end(facts, Outcome.TIMED_OUT, reason, None)
    if facts.halt is Halt.NEVER_STARTED:
        return _never_started(facts)
    reason = "every rank exited with status 0, yet rank 0 sent no result"
    return _end(facts, Outcome.NO_METRIC, reason, None)


def _cause(facts: LaunchFacts) -> RankEnd | None:
    """The first rank that failed by itself; those that only lost their peers are victims.

    Once the result is there, ranks lose each other while they shut down; that costs nothing. What
    a rank reports in words counts even then.
    """
    if facts.halt is Halt.CANCEL and facts.measurement is None:
        return None
    suspects = [
        end
        for end in facts.ranks
        if not end.waited_in_vain
        and (
            end.failed is not None
            or (
                (end.fault or end.died)
                and not end.lost
                and not (facts.measurement and end.trouble_after_result)
            )
        )
    ]
    return min(suspects, key=_order, default=None)


def _order(end: RankEnd) -> tuple[float, int]:
    return (float("inf") if end.trouble is None else end.trouble, end.rank)


def _absent(facts: LaunchFacts) -> LaunchEnd | None:
    """The end of a trial in which ranks waited for others that said nothing."""
    waiting = sorted((end for end in facts.ranks if end.waited_in_vain), key=_order)
    left = [end for end in facts.ranks if end.left]
    silent = [end for end in facts.ranks if end.ended_by_us and not end.waited_in_vain]
    if left and (waiting or silent):
        reason = f"rank {left[0].rank} exited with status 0 before the trial had a result"
        return _end(facts, Outcome.NO_METRIC, reason, left[0])
    if not waiting:
        return None
    first = waiting[0]
    message = quoted(first.failed.message) if first.failed else ""
    if silent:
        reason = (
            f"rank {silent[0].rank} took no part in a collective that "
            f"rank {first.rank} waited for: {message}"
        )
        return _end(facts, Outcome.HUNG, reason, silent[0])
    reason = f"the ranks lost each other, rank {first.rank} first: {message}"
    return _end(facts, Outcome.HUNG, reason, first)


def _measured(facts: LaunchFacts, measurement: Measurement) -> LaunchEnd:
    done = len(measurement.windows)
    if facts.stopped and done < facts.planned_windows:
        reason = f"stopped after {done} of {facts.planned_windows} windows"
        return _end(facts, Outcome.PRUNED, reason, None)
    return _end(facts, Outcome.COMPLETED, "", None)


def _never_started(facts: LaunchFacts) -> LaunchEnd:
    missing = [end for end in facts.ranks if not end.started]
    names = ", ".join(str(end.rank) for end in missing)
    reason = f"after {facts.seconds:.0f} s these ranks had not met the others: {names}"
    outcome = Outcome.HUNG if facts.has_environment else Outcome.ENVIRONMENT
    return _end(facts, outcome, reason, missing[0] if len(missing) < len(facts.ranks) else None)


def _survived(facts: LaunchFacts) -> LaunchEnd:
    pids = ", ".join(map(str, facts.survivors))
    reason = f"processes that even SIGKILL doesn't end are left, stuck in the kernel: pid {pids}"
    stuck = [end for end in facts.ranks if end.exit_status is None]
    return _end(facts, Outcome.ENVIRONMENT, reason, stuck[0] if stuck else None)


_KINDS = {
    FailureKind.OUT_OF_MEMORY: Outcome.OUT_OF_MEMORY,
    FailureKind.INVALID_KNOB: Outcome.INVALID_KNOB,
    FailureKind.COLLECTIVE: Outcome.HUNG,
    FailureKind.NON_FINITE: Outcome.DIVERGED,
    FailureKind.ENVIRONMENT: Outcome.ENVIRONMENT,
    FailureKind.ERROR: Outcome.CRASHED,
}


def _explain(end: RankEnd, facts: LaunchFacts) -> tuple[Outcome, str]:
    name = f"rank {end.rank}"
    if end.failed is not None:
        message = " ".join(end.failed.message.split())
        reason = f"{name}: {end.failed.exception}: {message}".removesuffix(": ")
        return _KINDS[end.failed.kind], _cut(reason)
    if end.fault:
        return Outcome.CRASHED, f"{name} {end.fault}"
    status = end.exit_status or 0
    if status < 0:
        return _killed(name, -status, facts)
    reason = f"{name} exited with status {status}"
    said = last_line(end.log_tail)
    reason = _cut(f"{reason}; the last line of its log: {said}" if said else reason)
    # Before it has met the others a rank does no more than import; what fails it fails all.
    return (Outcome.CRASHED if end.started else Outcome.ENVIRONMENT), reason


def _killed(name: str, number: int, facts: LaunchFacts) -> tuple[Outcome, str]:
    if number == signal.SIGKILL and facts.oom_kills > 0:
        by = "most likely by the kernel's out-of-memory killer: the host's memory ran out"
        return Outcome.OUT_OF_MEMORY, f"{name} was killed (SIGKILL), {by}"
    signals = {member.value: member.name for member in signal.Signals}
    return Outcome.CRASHED, f"{name} was ended by {signals.get(number, f'signal {number}')}"


def _cut(reason: str, limit: int = 500) -> str:
    return reason if len(reason) <= limit else f"{reason[: limit - 1]}…"


def _end(facts: LaunchFacts, outcome: Outcome, reason: str, cause: RankEnd | None) -> LaunchEnd:
    shown = cause or facts.ranks[0]
    return LaunchEnd(
        outcome=outcome,
        reason=reason,
        failed_rank=cause.rank if cause else None,
        measurement=facts.measurement if cause is None else None,
        log_path=shown.log_path,
        log_tail=shown.log_tail,
    )

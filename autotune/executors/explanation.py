"""Why a rank or a trial failed: an outcome, a sentence, and whose log shows it. Pure."""

import signal
from dataclasses import dataclass

from autotune.diagnosis import Diagnosis, Log, diagnose
from autotune.executors.launch_facts import LaunchFacts, RankEnd
from autotune.executors.log_tail import last_line
from autotune.model import Outcome
from autotune.model.protocol import Failed, FailureKind

LONGEST_REASON = 500
"""Characters."""
_KINDS = {
    FailureKind.OUT_OF_MEMORY: Outcome.OUT_OF_MEMORY,
    FailureKind.INVALID_KNOB: Outcome.INVALID_KNOB,
    FailureKind.COLLECTIVE: Outcome.HUNG,
    FailureKind.NON_FINITE: Outcome.DIVERGED,
    FailureKind.ENVIRONMENT: Outcome.ENVIRONMENT,
    FailureKind.NO_METRIC: Outcome.NO_METRIC,
    FailureKind.ERROR: Outcome.CRASHED,
}
_OWN = ("", "RankError")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
"""What Python writes between the tracebacks of exceptions that led to each other."""
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)
"""No failure of a program's own ends it by these."""


@dataclass(frozen=True)
class Why:
    """An explanation."""

    outcome: Outcome
    reason: str
    rank: int | None
    """The cause; None if nobody knows."""


def explain(end: RankEnd, facts: LaunchFacts) -> Why:
    """Why `end`, the first rank that failed by itself, did so."""
    if end.failed is not None:
        return _said(end, end.failed)
    if end.fault:
        return Why(Outcome.CRASHED, f"rank {end.rank} {end.fault}", end.rank)
    why = _exited(end) if (end.exit_status or 0) >= 0 else _killed(end, facts)
    return why if why.outcome is Outcome.OUT_OF_MEMORY else _in_log(end, why, facts)


def logs_say(facts: LaunchFacts) -> Why | None:
    """Why ranks waited for each other, if a log names it."""
    found = diagnose(map(_log, facts.ranks))
    if found is None or not _is_precise(found):
        return None
    return Why(
        found.outcome, cut(f"{_named(found)}{found.cause}: {found.quote}", found.action), found.rank
    )


def kernel_says(outcome: Outcome, rank: int | None, facts: LaunchFacts) -> Why | None:
    """Why a trial crashed or hung, if a GPU failed while it ran."""
    if outcome not in (Outcome.CRASHED, Outcome.HUNG):
        return None
    found = diagnose([Log.of(facts.kernel_log)])
    if found is None or not found.is_precise or found.outcome is not Outcome.ENVIRONMENT:
        return None
    reason = cut(f"{found.cause}, says the kernel: {found.quote}", found.action)
    return Why(found.outcome, reason, rank)


def _said(end: RankEnd, failed: Failed) -> Why:
    """What a rank's last message tells; the log is asked only if the message is vague."""
    # The name of one of autotune's own exceptions says nothing to whoever reads this.
    name = "" if failed.exception in _OWN else f"{failed.exception}: "
    text = " ".join(f"{name}{failed.message}".split()).removesuffix(":")
    if failed.exception == SystemExit.__name__ and (said := _before_traceback(end.log_end)):
        text = f"{text}; it said: {said}"
    outcome = _KINDS[failed.kind]
    found = diagnose([Log.of(text)])
    if found is not None and not found.is_precise:
        found = diagnose([Log.of(f"{end.log_end}\n{text}", rank=end.rank)])
    if found is not None and outcome is Outcome.CRASHED and _is_telling(found):
        outcome = found.outcome
    # What is to be done about another outcome would mislead.
    action = found.action if found is not None and found.outcome is outcome else ""
    # All ranks say the same of losses, which name the rank that they are of.
    speaker = "" if failed.kind is FailureKind.NON_FINITE else f"rank {end.rank}: "
    return Why(outcome, cut(f"{speaker}{text}", action), end.rank)


def _before_traceback(log: str) -> str:
    """The last line that the program wrote itself: argparse, for one, says why it exits."""
    said = _CHAINED[0]
    while said.startswith(_CHAINED):
        log = log.rpartition("Traceback (most recent call last)")[0]
        said = last_line(log)
    return said


def _is_telling(found: Diagnosis) -> bool:
    """Vague failures are the candidate's: as the machine's they would end the study."""
    return _is_precise(found) or found.outcome.is_infeasible


def _is_precise(found: Diagnosis) -> bool:
    """Nothing that a rank says cancels a trial: the one who stops a run is its controller."""
    return found.is_precise and found.outcome is not Outcome.CANCELLED


def _exited(end: RankEnd) -> Why:
    reason = f"rank {end.rank} exited with status {end.exit_status}"
    said = last_line(end.log_tail)
    # Before it has met the others a rank does no more than import; what fails it fails all.
    outcome = Outcome.CRASHED if end.started else Outcome.ENVIRONMENT
    reason = f"{reason}; the last line of its log: {said}" if said else reason
    return Why(outcome, cut(reason), end.rank)


def _killed(end: RankEnd, facts: LaunchFacts) -> Why:
    number = -(end.exit_status or 0)
    if number == signal.SIGKILL and _ran_out(facts):
        by = "most likely by the kernel's out-of-memory killer: the host's memory ran out"
        return Why(Outcome.OUT_OF_MEMORY, f"rank {end.rank} was killed (SIGKILL), {by}", end.rank)
    signals = {member.value: member.name for member in signal.Signals}
    name = signals.get(number, f"signal {number}")
    if number in _FROM_OUTSIDE:
        by = "sent by a person, a scheduler or a guard of the memory, not by the trial"
        return Why(Outcome.PREEMPTED, f"rank {end.rank} was ended by {name}, {by}", end.rank)
    return Why(Outcome.CRASHED, f"rank {end.rank} was ended by {name}", end.rank)


def _ran_out(facts: LaunchFacts) -> bool:
    """Whether the kernel ended a process for want of memory, its control group's included."""
    if facts.oom_kills > 0:
        return True
    found = diagnose([Log.of(facts.kernel_log)])
    return found is not None and found.outcome is Outcome.OUT_OF_MEMORY


def _in_log(end: RankEnd, why: Why, facts: LaunchFacts) -> Why:
    """`why`, or what the log of `end`, which has sent no message, says of it."""
    found = diagnose([_log(end)])
    if found is not None and found.outcome is Outcome.HUNG:
        # It waited for another rank until it gave up: all logs together tell for which.
        found = diagnose(map(_log, facts.ranks))
        if found is not None:
            reason = cut(f"{_named(found)}{found.cause}; {why.reason}", found.action)
            return Why(found.outcome, reason, found.rank)
    if found is None or not _is_precise(found):
        return why
    ended = why.reason.partition(";")[0]
    reason = cut(f"{ended}: {found.cause}: {found.quote}", found.action)
    return Why(found.outcome, reason, end.rank)


def _named(found: Diagnosis) -> str:
    return "" if found.rank is None else f"rank {found.rank}: "


def _log(end: RankEnd) -> Log:
    return Log.of(end.log_end, name=end.log_path, rank=end.rank)


def cut(reason: str, action: str = "") -> str:
    """`reason`, cut so that there is room for what to do about it."""
    if action:
        return f"{_cut(reason, LONGEST_REASON - len(action) - 2)}; {action}"
    return _cut(reason, LONGEST_REASON)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"

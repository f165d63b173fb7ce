"""From what was seen of a trial's ranks to how the trial ended. Pure.

The order of evidence: exit codes and signals, which rank was first, what our own program said of
its failure, what the kernel says, and last the logs.
"""

from autotune.errors import quoted
from autotune.executors.base import LaunchEnd
from autotune.executors.explanation import Why, cut, explain, kernel_says, logs_say
from autotune.executors.launch_facts import Halt, LaunchFacts, RankEnd
from autotune.executors.standing import Standing, behind, describe
from autotune.model import Measurement, Outcome


def decide(facts: LaunchFacts) -> LaunchEnd:
    """The launch's end, with the rank that is the cause and its log."""
    if facts.loss is not None and facts.measurement is None:
        return _end(facts, facts.loss.outcome, cut(facts.loss.reason), None)
    if facts.survivors:
        return _survived(facts)
    end = _decide(facts)
    why = kernel_says(end.outcome, end.failed_rank, facts)
    return _told(facts, why) if why else end


def _decide(facts: LaunchFacts) -> LaunchEnd:
    cause = _cause(facts)
    if cause is not None:
        return _told(facts, explain(cause, facts))
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
    if facts.halt is Halt.NO_PROGRESS:
        return _stalled(facts)
    if facts.halt is Halt.TIME_LIMIT:
        return _timed_out(facts)
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
    why = logs_say(facts)
    # That ranks waited is known; where the one that they waited for was says more than any log.
    if why is not None and not (why.outcome is Outcome.HUNG and silent and _at(silent[0], facts)):
        return _told(facts, why)
    first = waiting[0]
    # Without variables of its own a candidate has no say in whether ranks meet.
    met = facts.has_environment or any(end.started for end in facts.ranks)
    outcome = Outcome.HUNG if met else Outcome.ENVIRONMENT
    message = quoted(first.failed.message) if first.failed else ""
    if silent:
        reason = (
            f"rank {silent[0].rank}{_at(silent[0], facts)} took no part in a collective that "
            f"rank {first.rank} waited for: {message}"
        )
        return _end(facts, outcome, cut(reason), silent[0])
    reason = f"the ranks lost each other, rank {first.rank} first: {message}"
    return _end(facts, outcome, reason, first)


def _stalled(facts: LaunchFacts) -> LaunchEnd:
    """The end of a trial whose ranks gave no sign of life for too long."""
    why = logs_say(facts)
    if why is not None:
        return _told(facts, why)
    count, what = (facts.windows, "window") if facts.windows else (facts.steps, "step")
    done = f"{count} {what}{'s' * (count != 1)}"
    late = behind(facts.standings)
    reason = (
        f"no sign of life for {facts.silent_s:.0f} s after {done}, where one was expected within "
        f"{max(0.1, facts.expected_s):.1f} s: {describe(facts.standings)}"
    )
    return _end(facts, _held_or(Outcome.HUNG, late), cut(reason), _rank(late, facts))


def _timed_out(facts: LaunchFacts) -> LaunchEnd:
    """The end of a trial that is too slow, or hangs in what may take long: the first step."""
    done = f"{facts.windows} of {facts.planned_windows} windows"
    reason = f"not done after {facts.seconds:.0f} s, with {done} measured"
    late = None if facts.steps else behind(facts.standings)
    if late is None:
        return _end(facts, Outcome.TIMED_OUT, reason, None)
    reason = f"{reason} and no step done: {describe(facts.standings)}"
    return _end(facts, _held_or(Outcome.TIMED_OUT, late), cut(reason), _rank(late, facts))


def _held_or(outcome: Outcome, late: Standing | None) -> Outcome:
    """No candidate stops a process: whoever did may do so to the next one."""
    return Outcome.ENVIRONMENT if late and late.is_held else outcome


def _rank(late: Standing | None, facts: LaunchFacts) -> RankEnd | None:
    return next((end for end in facts.ranks if late and end.rank == late.rank), None)


def _at(end: RankEnd, facts: LaunchFacts) -> str:
    """What the rank was at, in brackets; empty if nobody knows."""
    known = [one for one in facts.standings if one.rank == end.rank and (one.frames or one.is_held)]
    return f" ({known[0].describe()})" if known else ""


def _measured(facts: LaunchFacts, measurement: Measurement) -> LaunchEnd:
    done = len(measurement.windows)
    if facts.stopped and done < facts.planned_windows:
        reason = f"stopped after {done} of {facts.planned_windows} windows"
        return _end(facts, Outcome.PRUNED, reason, None)
    return _end(facts, Outcome.COMPLETED, "", None)


def _never_started(facts: LaunchFacts) -> LaunchEnd:
    why = logs_say(facts)
    if why is not None:
        return _told(facts, why)
    missing = [end for end in facts.ranks if not end.started]
    names = ", ".join(f"{end.rank}{_at(end, facts)}" for end in missing)
    reason = f"after {facts.seconds:.0f} s these ranks had not met the others: {names}"
    outcome = Outcome.HUNG if facts.has_environment else Outcome.ENVIRONMENT
    cause = missing[0] if len(missing) < len(facts.ranks) else None
    return _end(facts, outcome, cut(reason), cause)


def _survived(facts: LaunchFacts) -> LaunchEnd:
    pids = ", ".join(map(str, facts.survivors))
    reason = f"processes that even SIGKILL doesn't end are left, stuck in the kernel: pid {pids}"
    stuck = [end for end in facts.ranks if end.exit_status is None]
    return _end(facts, Outcome.ENVIRONMENT, reason, stuck[0] if stuck else None)


def _told(facts: LaunchFacts, why: Why) -> LaunchEnd:
    cause = next((end for end in facts.ranks if end.rank == why.rank), None)
    return _end(facts, why.outcome, why.reason, cause)


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

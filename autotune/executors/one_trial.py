"""Runs one trial on its nodes, wherever these are: start, watch, end, say how it ended."""

import time
from collections.abc import Callable
from dataclasses import replace
from threading import Event

from autotune.executors.base import Launch, LaunchEnd, OnWindow
from autotune.executors.endings import decide
from autotune.executors.launch_facts import LaunchFacts, NodesEnd
from autotune.executors.nodes import Nodes, StartError
from autotune.executors.standing import Standing
from autotune.executors.watch import Limits, Watch
from autotune.model import Outcome


def run_trial(
    nodes: Nodes,
    get_ready: Callable[[], None],
    start: Callable[[], None],
    launch: Launch,
    limits: Limits,
    on_window: OnWindow,
    cancel: Event,
) -> LaunchEnd:
    """`get_ready` waits for what isn't the trial's own, then `start` starts the ranks on `nodes`.

    Both raise StartError if that can't be.
    Of `limits`, those of the first step and of the whole are the launch's own.
    """
    if cancel.is_set():
        reason = "ended because the run was stopped"
        return LaunchEnd(outcome=Outcome.CANCELLED, reason=reason)
    prepared_s, began = 0.0, time.monotonic()
    try:
        get_ready()
        prepared_s = time.monotonic() - began
        start()
        limits = replace(limits, time_s=launch.time_limit_s, first_step_s=launch.first_step_limit_s)
        ranks = launch.nodes * launch.ranks_per_node
        watch = Watch(nodes, ranks, limits, on_window, cancel, plan=launch.spec.plan)
        watch.until_over()
        standings = watch.standings()
        ended = nodes.end(may_stay=watch.all_ready)
        end = decide(_facts(launch, watch, standings, ended))
        well = end.outcome in (Outcome.COMPLETED, Outcome.PRUNED)
        return replace(end, left_behind=nodes.finish(well=well), prepared_s=prepared_s)
    except StartError as error:
        return LaunchEnd(outcome=error.outcome, reason=str(error), prepared_s=prepared_s)
    finally:
        nodes.abandon()


def _facts(
    launch: Launch, watch: Watch, standings: tuple[Standing, ...], ended: NodesEnd
) -> LaunchFacts:
    return LaunchFacts(
        ranks=watch.ends(ended.ranks),
        measurement=watch.measurement,
        windows=watch.windows,
        planned_windows=launch.spec.plan.windows,
        stopped=watch.stopped,
        halt=watch.halt,
        seconds=watch.seconds,
        silent_s=watch.pace.silent_s(watch.seconds),
        expected_s=watch.pace.expected_s,
        steps=watch.pace.steps,
        standings=standings,
        has_environment=bool(launch.spec.environment),
        oom_kills=ended.oom_kills,
        kernel_log=ended.kernel_log,
        survivors=ended.survivors,
        loss=ended.loss or watch.loss,
    )

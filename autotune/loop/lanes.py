"""Whether trials may run at once: the baseline was launched alone, and is beside itself."""

import math
from collections.abc import Callable
from functools import partial

from autotune.executors.base import OnWindow
from autotune.loop.crew import Crew
from autotune.loop.launcher import Ended, Launcher
from autotune.loop.ledger import Ledger
from autotune.loop.plan import BASELINE_LAUNCHES, Step
from autotune.model import AnyMeasurement, Candidate, Phase
from autotune.scoring.beside import Disturbance, disturbance
from autotune.scoring.score import score

ROUNDS = BASELINE_LAUNCHES
"""Of the baseline on all lanes at once: as often as it was launched alone."""
OnWindowOf = Callable[[Step], OnWindow]


def why_not_at_once(
    launcher: Launcher,
    crew: Crew[Ended],
    ledger: Ledger,
    baseline: Candidate,
    on_window: OnWindowOf,
) -> str:
    """What speaks against trials at once, as a clause; empty if nothing does.

    These launches are no trials of the study, which knows the baseline from launches alone.
    """
    if not ledger.has_measured(baseline):
        return "the baseline doesn't work, so that whether they disturb each other can't be seen"
    step = Step(phase=Phase.BASELINE, candidate=baseline)
    beside: list[float] = []
    for number in range(ROUNDS):
        lanes = launcher.executor.at_once
        for lane in range(lanes):
            launch = launcher.prepare(step, ledger, f"beside-{number}-{lane}", None)
            crew.start(partial(launcher.run, step, launch, on_window(step)))
        ends = [crew.next().end for _ in range(lanes)]
        for end in ends:
            if end.measurement is None:
                return f"the baseline beside itself ended as {end.outcome}: {end.reason}"
            beside.append(_corrected(end.measurement, ledger))
    found = disturbance(_alone(ledger, baseline), beside, ledger.noise)
    return _in_words(found) if found.is_shown else ""


def _alone(ledger: Ledger, baseline: Candidate) -> list[float]:
    readings = ledger.arms[baseline].rates
    return [ledger.drift.corrected(one.log_rate, one.at_s) for one in readings]


def _corrected(measurement: AnyMeasurement, ledger: Ledger) -> float:
    log_rate = math.log(score(measurement).samples_per_second)
    return ledger.drift.corrected(log_rate, ledger.elapsed_s)


def _in_words(found: Disturbance) -> str:
    return (
        f"they disturb each other: the baseline makes {found.alone:,.1f} samples/s alone and "
        f"{found.beside:,.1f} beside itself ({found.percent:+.1f} %), which is beyond the noise"
    )

"""Step times, memory and communication of a study's candidates, as they were measured."""

from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np

from autotune.model import Candidate, Measurement, Phase, Study, Trial
from autotune.report.arms import Arms
from autotune.report.content import Communication, Memory, Peak, StepTimes
from autotune.report.readings import measured
from autotune.report.text import changes, settings_text
from autotune.space.memory import capacity_of


def step_times(trials: Sequence[Trial], arms: Arms) -> tuple[StepTimes, ...]:
    """Of the arms: over the launches of confirmation, if there are any, else over all."""
    found = []
    for arm in (arms.baseline, arms.chosen):
        own = [t for t in trials if arm is not None and t.candidate == arm and t.scored]
        launches = [t for t in own if t.phase is Phase.CONFIRM] or own
        times = [
            1000 * window.seconds / window.steps
            for trial in launches
            if (m := measured(trial))
            for window in m.windows
        ]
        if arm is not None and times:
            found.append(_step_times(arms.name(arm), len(launches), times))
    return tuple(found)


def _step_times(name: str, launches: int, times: Sequence[float]) -> StepTimes:
    low, median, high = (float(q) for q in np.percentile(times, (10, 50, 90)))
    return StepTimes(
        arm=name,
        launches=launches,
        windows_ms=tuple(times),
        p10_ms=low,
        median_ms=median,
        p90_ms=high,
    )


def memory_of(study: Study, trials: Sequence[Trial], arms: Arms) -> Memory:
    """Peaks by candidate against what a rank may use on the study's machine."""
    machine, target = study.machine, study.spec.target
    capacity = capacity_of(machine, machine.device, target.ranks_per_node)
    peaks = []
    for candidate, own in _by_candidate(trials).items():
        found = [
            max(m.peak_memory_bytes) for t in own if (m := measured(t)) and m.peak_memory_bytes
        ]
        if found:
            peaks.append(
                Peak(
                    settings=_settings(candidate, arms),
                    arm=arms.name(candidate),
                    bytes=max(found),
                    launches=len(found),
                )
            )
    return Memory(
        limit_bytes=capacity.per_rank_bytes if capacity else None,
        limit_source=capacity.source if capacity else "",
        peaks=tuple(sorted(peaks, key=lambda peak: -peak.bytes)),
    )


def communication_of(trials: Sequence[Trial], arms: Arms) -> tuple[Communication, ...]:
    """By candidate, where it was measured."""
    found = []
    for candidate, own in _by_candidate(trials).items():
        shares = [
            m.communication_share
            for t in own
            if isinstance(m := measured(t), Measurement) and m.communication_share is not None
        ]
        if shares:
            found.append(
                Communication(
                    settings=_settings(candidate, arms),
                    arm=arms.name(candidate),
                    share=fmean(shares),
                    launches=len(shares),
                )
            )
    return tuple(found)


def _settings(candidate: Candidate, arms: Arms) -> str:
    return settings_text(changes(candidate, arms.baseline) if arms.baseline else candidate)


def _by_candidate(trials: Iterable[Trial]) -> dict[Candidate, list[Trial]]:
    found: dict[Candidate, list[Trial]] = {}
    for trial in trials:
        found.setdefault(trial.candidate, []).append(trial)
    return found

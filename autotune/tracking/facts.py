"""What a tool is told, as names, texts and numbers."""

import math
from collections.abc import Mapping

from autotune.loop.study import StudyEnd
from autotune.model import Measurement, Study, Trial
from autotune.report.readings import measured
from autotune.report.text import shown, visible
from autotune.scoring.score import score
from autotune.tracking.base import Closing, Entry, Opening


def opening(study: Study) -> Opening:
    """Of a study that begins."""
    target = study.spec.target
    return Opening(
        run=study.run_id,
        texts={
            "kind": "simulated" if target.is_simulated else "measured",
            "instance": target.instance,
            "nodes": str(target.nodes),
            "ranks_per_node": str(target.ranks_per_node),
            "workload": target.workload,
            "global_batch": str(target.global_batch),
            "machine": study.machine.describe(),
            "strategy": study.spec.search,
            "seed": str(study.spec.seed),
        },
    )


def entry(trial: Trial) -> Entry:
    """Of a trial that has ended."""
    return Entry(
        number=trial.number,
        settings={name: shown(value) for name, value in trial.candidate.items()},
        texts={
            "phase": trial.phase.value,
            "outcome": trial.outcome.value,
            "reason": visible(trial.reason),
        },
        figures=_finite(_figures(trial)),
    )


def closing(end: StudyEnd) -> Closing:
    """Of how an invocation ended."""
    decision, evidence = end.decision, end.evidence
    figures = {}
    if evidence and evidence.baseline:
        figures["baseline_samples_per_second"] = evidence.baseline.samples_per_second
    if evidence and evidence.winner:
        figures["winner_samples_per_second"] = evidence.winner.samples_per_second
    if evidence and evidence.ratio:
        ratio = evidence.ratio
        gains = {"": ratio.estimate, "_low": ratio.low, "_high": ratio.high}
        figures |= {f"gain_percent{name}": 100 * (gain - 1) for name, gain in gains.items()}
    settings = {f"best.{name}": shown(value) for name, value in decision.candidate.items()}
    return Closing(
        texts={
            "conclusion": decision.conclusion.value,
            "reason": visible(decision.reason),
            "interrupted": shown(end.interrupted),
            **settings,
        },
        figures=_finite(figures),
    )


def _figures(trial: Trial) -> dict[str, float]:
    found = measured(trial)
    figures = {"seconds": trial.seconds}
    if found is None:
        return figures
    scored = score(found)
    figures |= {"samples_per_second": scored.samples_per_second, "stability": scored.stability}
    if found.peak_memory_bytes:
        figures["peak_memory_bytes"] = float(max(found.peak_memory_bytes))
    if found.losses:
        figures["last_loss"] = found.losses[-1]
    if isinstance(found, Measurement) and found.communication_share is not None:
        figures["communication_share"] = found.communication_share
    return figures


def _finite(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if math.isfinite(value)}

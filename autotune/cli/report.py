"""The answer of a run, as a table or as JSON on stdout."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from autotune.cli.documents import kind
from autotune.cli.render import (
    changes,
    duration_text,
    out,
    print_json,
    print_table,
    rate_text,
    ratio_text,
    settings_text,
)
from autotune.cli.saving import Saved
from autotune.exporters.document import to_document
from autotune.exporters.text import defaults_text, scope
from autotune.loop.study import StudyEnd
from autotune.model import (
    Candidate,
    Conclusion,
    Evidence,
    Measurement,
    Phase,
    Study,
    Trial,
    encode,
)
from autotune.scoring.drift import Drift
from autotune.scoring.noise import Noise
from autotune.scoring.score import Score, score

_MOST_NOTES = 5
_SENTENCES = {
    Conclusion.IMPROVED: "Improved: use the configuration below.",
    Conclusion.KEEP_DEFAULTS: "Keep the {defaults}: nothing beat them beyond the noise.",
    Conclusion.UNCONFIRMED: "Unconfirmed: the configuration below looked best, nothing more.",
    Conclusion.NO_CANDIDATE: "No candidate works.",
}


def print_answer(
    study: Study, end: StudyEnd, trials: Sequence[Trial], saved: Saved, format_: object
) -> None:
    """Print what the run found, and where it is saved."""
    if str(format_) == "json":
        print_json(_answer_data(study, end, trials, saved))
        return
    print_trials(f"Run {study.run_id}: {study.spec.target.describe()}", trials)
    console = out()
    console.print()
    console.print(_sentence(study, end), markup=False)
    console.print(f"  because    {end.decision.reason}", markup=False)
    if end.evidence is not None:
        chosen, name = end.decision.candidate, _chosen_name(end.decision.conclusion)
        _print_evidence(end.evidence, chosen, trials, name)
        if shares := communication_text(trials, chosen, name):
            console.print(f"  waits      {shares}", markup=False)
    _print_course(end, trials)
    _print_notes(end)
    print_left_behind(trials)
    if saved.path is not None:
        console.print(f"  saved      {saved.path}", markup=False)
    if saved.kept is not None:
        console.print(
            f"  kept       the answer of run {saved.kept} stays the one for this target",
            markup=False,
        )


def _sentence(study: Study, end: StudyEnd) -> str:
    if study.spec.target.is_simulated:
        conclusion = end.decision.conclusion.value.replace("_", " ")
        return f"Simulated, nothing was measured. Conclusion: {conclusion}."
    if end.evidence is None and (end.interrupted or end.stuck):
        return "Nothing measured yet."
    is_early = end.interrupted or end.stuck
    is_unconfirmed = end.decision.conclusion is Conclusion.UNCONFIRMED
    if is_unconfirmed and not is_early and not end.search_ended:
        return f"Nothing but the {defaults_text(study.spec.pinned)} was tried."
    if is_unconfirmed and end.evidence is not None and end.evidence.winner is None:
        return f"Unconfirmed: the {defaults_text(study.spec.pinned)} looked best, nothing more."
    return _SENTENCES[end.decision.conclusion].format(defaults=defaults_text(study.spec.pinned))


def _chosen_name(conclusion: Conclusion) -> str:
    """What isn't confirmed has won nothing."""
    return "winner" if conclusion is Conclusion.IMPROVED else "leading"


def _print_evidence(
    evidence: Evidence, chosen: Candidate, trials: Sequence[Trial], name: str
) -> None:
    console = out()
    baseline = _baseline(trials)
    console.print(f"  baseline   {rate_text(evidence.baseline)}", markup=False)
    if evidence.winner is not None:
        console.print(f"  {name:10} {rate_text(evidence.winner)}", markup=False)
        text = settings_text(changes(chosen, baseline) if baseline else chosen)
        console.print(f"  settings   {text}", markup=False)
    if evidence.ratio is not None:
        console.print(f"  gain       {ratio_text(evidence.ratio)}", markup=False)
    if narrowed := scope(evidence.pinned, evidence.only):
        console.print(f"  narrowed   {narrowed}", markup=False)
    for other in evidence.shared_with:
        console.print(f"  shared     the machine, with {other}: figures disturbed", markup=False)


def _print_course(end: StudyEnd, trials: Sequence[Trial]) -> None:
    """Why the search ended, and how quiet the machine was."""
    console = out()
    if end.search_ended:
        console.print(f"  search     ended: {end.search_ended}", markup=False)
    if end.noise is not None:
        console.print(f"  noise      {noise_text(end.noise)}", markup=False)
    if end.drift.per_second:
        text = drift_text(end.drift, sum(trial.seconds for trial in trials))
        console.print(f"  drift      {text}", markup=False)


def drift_text(drift: Drift, took_s: float) -> str:
    """What it came to in a study that took so long: an hour's is more than a short one has seen."""
    percent = 100 * math.expm1(took_s * drift.per_second)
    return (
        f"{percent:+.1f} % over the {duration_text(took_s)} of all trials "
        f"({drift.percent_per_hour:+.1f} % an hour), corrected for"
    )


def communication_text(trials: Sequence[Trial], chosen: Candidate, name: str = "winner") -> str:
    """The share of a step that is communication which nothing hides; empty if not measured."""
    baseline = _baseline(trials)
    arms = {"baseline": baseline, name: None if chosen == baseline else chosen}
    shares = {name: _communication(trials, arm) for name, arm in arms.items() if arm is not None}
    parts = [f"{name} {100 * share:.0f} %" for name, share in shares.items() if share is not None]
    return f"for communication, of a step: {', '.join(parts)}" if parts else ""


def _communication(trials: Sequence[Trial], candidate: Candidate) -> float | None:
    measured = [trial.scored for trial in trials if trial.candidate == candidate]
    shares = [one.communication_share for one in measured if isinstance(one, Measurement)]
    known = [share for share in shares if share is not None]
    return fmean(known) if known else None


def noise_text(noise: Noise) -> str:
    """Both levels, as standard deviations in percent."""
    return (
        f"{100 * noise.launch:.1f} % from launch to launch, "
        f"{100 * noise.window:.1f} % from window to window, over all candidates"
    )


def _print_notes(end: StudyEnd) -> None:
    """What was not launched, and what did nothing."""
    console = out()
    memory = end.left_out.cannot.keys() | end.left_out.near.keys()
    others = (reason for candidate, reason in end.skipped.items() if candidate not in memory)
    for reason, count in Counter(others).most_common(_MOST_NOTES):
        console.print(f"  skipped    {count} x {reason}", markup=False)
    if end.left_out.describe():
        console.print(f"  memory     {end.left_out.describe()}", markup=False)
    for setting, reason in list(end.no_effect.items())[:_MOST_NOTES]:
        console.print(f"  no effect  {setting}: {reason}; not exported", markup=False)


def print_trials(title: str, trials: Sequence[Trial]) -> None:
    """One line for each trial, in the order of their launches."""
    baseline = _baseline(trials)
    print_table(
        title,
        ["trial", "for", "strategy", "differs from the baseline in", "samples/s", "stability",
         "score", "took", "outcome"],
        [_row(trial, baseline) for trial in trials],
    )  # fmt: skip


def print_left_behind(trials: Sequence[Trial]) -> None:
    """What trials left behind, and what became of it."""
    console = out()
    for trial in trials:
        if trial.left_behind:
            console.print(
                f"  left       by trial {trial.number}: {trial.left_behind}", markup=False
            )


def _row(trial: Trial, baseline: Candidate | None) -> list[str]:
    measurement = trial.scored
    found = score(measurement) if measurement else None
    different = changes(trial.candidate, baseline) if baseline else dict(trial.candidate)
    outcome = trial.outcome.value + (f": {trial.reason}" if trial.reason else "")
    return [
        str(trial.number),
        trial.phase.value,
        trial.settings.strategy.value,
        settings_text(different) if different else "-",
        f"{found.samples_per_second:,.1f}" if found else "-",
        _stability(found) if found else "-",
        f"{found.value:,.1f}" if found else "-",
        duration_text(trial.seconds),
        outcome,
    ]


def _baseline(trials: Sequence[Trial]) -> Candidate | None:
    return next((t.candidate for t in trials if t.phase is Phase.BASELINE), None)


def _stability(found: Score) -> str:
    disturbed = len(found.outliers)
    return f"{found.stability:.2f}" + (f" ({disturbed} disturbed)" if disturbed else "")


def _answer_data(study: Study, end: StudyEnd, trials: Sequence[Trial], saved: Saved) -> object:
    return {
        "run": study.run_id,
        "kind": kind(study),
        "conclusion": end.decision.conclusion.value,
        "reason": end.decision.reason,
        "interrupted": end.interrupted,
        "saved": None if saved.path is None else str(saved.path),
        "kept": saved.kept,
        "best": None if end.best is None else to_document(end.best),
        "evidence": end.evidence and {"kind": kind(study), **encode(end.evidence)},
        "trials": len(trials),
        "skipped": dict(Counter(end.skipped.values())),
        "no_effect": dict(end.no_effect),
        "search_ended": end.search_ended,
        "noise_percent": None
        if end.noise is None
        else {"launch": 100 * end.noise.launch, "window": 100 * end.noise.window},
        "drift_percent_per_hour": end.drift.percent_per_hour,
    }

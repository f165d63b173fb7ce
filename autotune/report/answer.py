"""The answer of a study in one sentence, and what speaks for it."""

from collections.abc import Sequence

from autotune.exporters.text import defaults_text, scope
from autotune.loop.study import StudyEnd
from autotune.model import Candidate, Conclusion, Study, StudyStatus, Trial
from autotune.report.arms import BASELINE, Arms, rounds_of
from autotune.report.content import Answer, Arm
from autotune.report.text import changes, ratio_text, settings_text


def answer_of(study: Study, trials: Sequence[Trial], arms: Arms, end: StudyEnd | None) -> Answer:
    """What `study` says; its own record goes before what a replay says."""
    return Answer(
        sentence=_sentence(study, arms),
        conclusion=study.conclusion.value if study.conclusion else "none yet",
        reason=study.reason,
        baseline=_baseline(study, trials, arms),
        winner=_chosen(trials, arms),
        ratio=arms.ratio,
        rounds=rounds_of(trials, arms),
        notes=tuple(_notes(study, end)),
    )


def _sentence(study: Study, arms: Arms) -> str:
    text = _said(study, arms)
    if not study.spec.target.is_simulated:
        return text
    return f"Simulated, nothing was measured: in this simulation, {text[0].lower()}{text[1:]}"


def _said(study: Study, arms: Arms) -> str:
    defaults = defaults_text(study.spec.pinned)
    target = study.spec.target.describe()
    settings = settings_text(_changes(arms)) if arms.chosen else ""
    match study.conclusion:
        case Conclusion.IMPROVED if arms.chosen:
            gain = f": {ratio_text(arms.ratio)} over the {defaults}" if arms.ratio else ""
            return f"Use {settings} for {target}{gain}."
        case Conclusion.IMPROVED:
            return f"A configuration beats the {defaults} for {target}: {study.reason}."
        case Conclusion.KEEP_DEFAULTS:
            return f"Keep the {defaults} for {target}: {study.reason}."
        case Conclusion.UNCONFIRMED if arms.chosen:
            return f"Nothing is confirmed for {target}; {settings} looked best: {study.reason}."
        case Conclusion.UNCONFIRMED:
            return f"Nothing is confirmed for {target}: {study.reason}."
        case Conclusion.NO_CANDIDATE:
            return f"No candidate works for {target}: {study.reason}."
        case _:
            ended = "has not ended" if study.status is StudyStatus.RUNNING else "was interrupted"
            return f"No answer yet for {target}: the run {ended}."


def _changes(arms: Arms) -> dict[str, bool | int | float | str]:
    if arms.chosen is None:
        return {}
    return changes(arms.chosen, arms.baseline or Candidate({}))


def _baseline(study: Study, trials: Sequence[Trial], arms: Arms) -> Arm | None:
    if arms.baseline is None:
        return None
    return Arm(
        name=BASELINE,
        settings=dict(study.spec.pinned),
        environment=_environment(trials, arms.baseline),
        reading=arms.baseline_reading,
    )


def _chosen(trials: Sequence[Trial], arms: Arms) -> Arm | None:
    if arms.chosen is None:
        return None
    return Arm(
        name=arms.chosen_name,
        settings=_changes(arms),
        environment=_environment(trials, arms.chosen),
        reading=arms.chosen_reading,
    )


def _environment(trials: Sequence[Trial], candidate: Candidate) -> dict[str, str]:
    return next((dict(t.environment) for t in trials if t.candidate == candidate), {})


def _notes(study: Study, end: StudyEnd | None) -> list[str]:
    notes = []
    if study.spec.target.is_simulated:
        notes.append("Every figure here is made up by the landscape, on a clock of its own.")
    if narrowed := scope(study.spec.pinned, study.spec.only):
        notes.append(f"The search was narrowed: {narrowed}.")
    if end and end.evidence:
        notes += [f"The machine was shared with {other}." for other in end.evidence.shared_with]
    if end and study.conclusion and end.decision.conclusion is not study.conclusion:
        now = end.decision.conclusion.value.replace("_", " ")
        notes.append(f"By the rules of this version of autotune the conclusion would be: {now}.")
    return notes

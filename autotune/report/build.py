"""Puts a report together from what the store holds of a study."""

from collections.abc import Sequence

from autotune import __version__
from autotune.loop.study import StudyEnd
from autotune.model import BestConfiguration, Measurement, Study, Trial
from autotune.report.answer import answer_of
from autotune.report.arms import Arms, arms_of
from autotune.report.content import SCHEMA, Launch, Report, Reproduce
from autotune.report.readings import measured, readings
from autotune.report.reproduce import commands, notes
from autotune.report.resources import communication_of, memory_of, step_times
from autotune.report.skipped import failures_of, skipped_of
from autotune.report.text import changes, settings_text
from autotune.report.worth import worth
from autotune.scoring.score import score
from autotune.space.space import Space


def build_report(
    study: Study,
    trials: Sequence[Trial],
    *,
    status: str,
    end: StudyEnd | None = None,
    space: Space | None = None,
    unknown: str = "",
    saved: BestConfiguration | None = None,
) -> Report:
    """The report on `study`.

    `end` and `space` are of its replay; without them `unknown` says why, and `saved`, the answer
    that the study itself saved, speaks for the conclusion.
    """
    arms = arms_of(study.conclusion, trials, end, saved)
    return Report(
        schema=SCHEMA,
        run=study.run_id,
        kind="simulated" if study.spec.target.is_simulated else "measured",
        target=study.spec.target.describe(),
        machine=study.machine.describe(),
        status=status,
        strategy=study.spec.search,
        started=study.created_at.isoformat(timespec="seconds"),
        trials=len(trials),
        seconds=sum(trial.seconds for trial in trials),
        autotune=__version__,
        versions=_versions(study, trials),
        answer=answer_of(study, trials, arms, end),
        history=tuple(_launch(trial, arms) for trial in trials),
        worth=worth(readings(trials), arms.baseline),
        skipped=skipped_of(trials, end, space, unknown),
        failures=failures_of(trials),
        steps=step_times(trials, arms),
        memory=memory_of(study, trials, arms),
        communication=communication_of(trials, arms),
        reproduce=Reproduce(commands=tuple(commands(study)), notes=tuple(notes(study))),
    )


def _versions(study: Study, trials: Sequence[Trial]) -> dict[str, str]:
    """What the trials read back goes before what was there when the study began."""
    found = dict(study.machine.versions)
    for trial in trials:
        if isinstance(trial.measurement, Measurement):
            found |= trial.measurement.versions
    return found


def _launch(trial: Trial, arms: Arms) -> Launch:
    found = measured(trial)
    scored = score(found) if found else None
    different = changes(trial.candidate, arms.baseline) if arms.baseline else trial.candidate
    return Launch(
        trial=trial.number,
        phase=trial.phase.value,
        settings=settings_text(different),
        outcome=trial.outcome.value,
        reason=trial.reason,
        samples_per_second=scored.samples_per_second if scored else None,
        stability=scored.stability if scored else None,
        seconds=trial.seconds,
    )

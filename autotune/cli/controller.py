"""Runs a study for the command line: alone, until it ends or is interrupted, and reports."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import Event

import typer

from autotune.answers import keep_answer, shared_before
from autotune.cli.interrupts import interruptible
from autotune.cli.options import Format
from autotune.cli.progress import Progress
from autotune.cli.report import print_answer
from autotune.cli.saving import save_file
from autotune.compose import Launching, runner
from autotune.loop.observer import Observers
from autotune.loop.records import StudyRecords
from autotune.loop.study import StudyEnd
from autotune.machine_lock import MachineUse
from autotune.machines import Place
from autotune.model import Conclusion, Study
from autotune.model.secrets import redacted
from autotune.run_lease import hold_run
from autotune.storage import Store
from autotune.tracking.base import Tracker
from autotune.tracking.observer import Tracking

EXIT_STUCK = 1
EXIT_NO_CANDIDATE = 3
EXIT_INTERRUPTED = 130


def control(
    study: Study,
    place: Place,
    store: Store,
    *,
    storage: str | None,
    mirror: str | None,
    format_: Format,
    using: AbstractContextManager[MachineUse | None],
    launching: Launching,
    notices: Sequence[str] = (),
    trackers: Mapping[str, Tracker] | None = None,
) -> None:
    """Run what is left of `study`, save its answer and print it.

    Raises typer.Exit with what follows from how it ended, and FieldError if another process runs
    it.
    """
    progress, cancel = Progress(pinned=study.spec.pinned), Event()
    resume_command = _resume_command(study, storage, mirror, launching, trackers or {})
    holding = hold_run(
        store, study.run_id, say=progress.say, cancel=cancel, resume_command=resume_command
    )
    with holding as records, using as use:
        if use is not None:
            use.announce(study.run_id)
        progress.resumed(records.trials(study.run_id))
        _introduce(study, place, notices, progress)
        before = shared_before(store, study)
        try:
            with interruptible(progress.say, cancel):
                end = _run(study, place, records, progress, cancel, launching, trackers or {})
        except KeyboardInterrupt:
            progress.say(f"interrupted at once; resume with: {resume_command}")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        if end.best is not None:
            shared = (*before, *(use.shared_with() if use else ()))
            best = keep_answer(records, end.best, shared)
            end = replace(end, best=best, evidence=best.evidence)
        saved = save_file(study, store, end.best)
        print_answer(study, end, records.trials(study.run_id), saved, format_)
    _leave(end, progress, resume_command)


def _introduce(study: Study, place: Place, notices: Sequence[str], progress: Progress) -> None:
    progress.say(f"run {study.run_id}: {study.spec.target.describe()}")
    progress.say(f"machine: {place.machine.describe()}")
    if study.spec.target.is_simulated:
        progress.say(f"simulated on {study.spec.landscape}: nothing is measured, nothing is saved")
    for notice in notices:
        progress.say(f"notice: {notice}")


def _run(
    study: Study,
    place: Place,
    records: StudyRecords,
    progress: Progress,
    cancel: Event,
    launching: Launching,
    trackers: Mapping[str, Tracker],
) -> StudyEnd:
    tracking = Tracking(study, trackers, progress.say)
    observer = Observers([progress, tracking])
    running = runner(study, place, records, observer, cancel, launching=launching)
    try:
        with running.executor:
            end = running.run()
        tracking.study_ended(end)
        return end
    finally:
        progress.close()
        tracking.close()


def _leave(end: StudyEnd, progress: Progress, resume_command: str) -> None:
    if end.interrupted:
        what = "the time limit has come" if end.out_of_time else "interrupted"
        progress.say(f"{what}; resume with: {resume_command}")
        raise typer.Exit(EXIT_INTERRUPTED)
    if end.stuck:
        progress.say(f"stopped; once that is mended: {resume_command}")
        raise typer.Exit(EXIT_STUCK)
    if end.decision.conclusion is Conclusion.NO_CANDIDATE:
        raise typer.Exit(EXIT_NO_CANDIDATE)


def _resume_command(
    study: Study,
    storage: str | None,
    mirror: str | None,
    launching: Launching,
    log_to: Iterable[str],
) -> str:
    where = f" --storage {shlex.quote(redacted(storage))}" if storage else ""
    where += f" --mirror {shlex.quote(mirror)}" if mirror else ""
    logs = "".join(f" --log-to {shlex.quote(place)}" for place in log_to)
    return f"autotune resume {study.run_id}{where}{launching.flags}{logs}"

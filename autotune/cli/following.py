"""Follows a SageMaker job for a person: their progress lines, Ctrl-C, and the answer at its end."""

import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING

import typer

from autotune.cli.controller import EXIT_INTERRUPTED, EXIT_NO_CANDIDATE
from autotune.cli.interrupts import handling
from autotune.cli.options import Format
from autotune.cli.progress import Progress
from autotune.cli.report import print_answer
from autotune.cli.saving import save_file
from autotune.compose import recall
from autotune.errors import AutotuneError, CloudError
from autotune.loop.observer import TrialStart
from autotune.loop.plan import Step
from autotune.model import Candidate, Conclusion, Job, Phase, Study, StudyStatus, Trial
from autotune.model.secrets import redacted
from autotune.storage import Store
from autotune.storage.changes import Record, Status
from autotune.storage.objects import open_objects

if TYPE_CHECKING:
    from autotune.sagemaker.account import Account
    from autotune.sagemaker.following import Follower
    from autotune.sagemaker.jobs import JobState

_QUESTION = "[d]etach, and the job goes on; [s]top the job; [c]ontinue to follow it? "


@dataclass(frozen=True, kw_only=True)
class Following:
    """Where what a job writes goes, here."""

    store: Store
    storage: str | None
    """As it was given."""
    format_: Format

    def resume_command(self, run_id: str) -> str:
        """What is typed to follow the run's job, or to submit another one."""
        where = f" --storage {shlex.quote(redacted(self.storage))}" if self.storage else ""
        return f"autotune resume {run_id}{where}"


def follow_job(account: "Account", job: Job, following: Following) -> None:
    """Show what the job does until it ends, then its answer.

    Raises typer.Exit with what follows from how it ended, and CloudError if the job failed.
    """
    from autotune.sagemaker.jobs import stop  # noqa: PLC0415 - boto3 is an extra

    shown = _Shown(following.store, job)
    follower = _follower(account, job, following.store, shown.progress.say, shown.told)
    resume = following.resume_command(job.run_id)
    while (state := _follow(follower, shown.progress)) is None:
        choice = _choice()
        if choice == "c":
            follower.cancel.clear()
        elif choice == "s":
            stop(account, job.name)
            shown.progress.say("stopping the job; it keeps what it has measured …")
            follower.cancel.clear()
        else:
            shown.progress.say(f"detached, the job goes on; follow it, or stop it, with: {resume}")
            raise typer.Exit(EXIT_INTERRUPTED)
    _conclude(follower, state, following, resume)


def _follower(
    account: "Account",
    job: Job,
    store: Store,
    say: Callable[[str], None],
    told: Callable[[Record], None],
) -> "Follower":
    from autotune.sagemaker.following import Follower  # noqa: PLC0415 - boto3 is an extra

    return Follower(
        account=account,
        job=job,
        store=store,
        objects=open_objects(job.s3, "--s3"),
        say=say,
        told=told,
        cancel=Event(),
    )


class _Shown:
    """Progress, from records in place of a running study."""

    def __init__(self, store: Store, job: Job) -> None:
        self.progress = Progress()
        self._known = {trial.number for trial in store.trials(job.run_id)}
        self.progress.resumed(store.trials(job.run_id))
        self._baseline: Candidate | None = None

    def told(self, record: Record) -> None:
        """One line for a trial that wasn't known when this began."""
        if isinstance(record, Study):
            self.progress.say(f"machine: {record.machine.describe()}")
        elif isinstance(record, Status):
            if record.status is not StudyStatus.RUNNING:
                self.progress.say(f"study: {record.status.value}")
        elif isinstance(record, Trial):
            self._trial(record)

    def _trial(self, trial: Trial) -> None:
        if trial.phase is Phase.BASELINE:
            self._baseline = trial.candidate
        if trial.number in self._known:
            return
        start = TrialStart(
            number=trial.number,
            step=Step(phase=trial.phase, candidate=trial.candidate),
            baseline=self._baseline or trial.candidate,
            remaining_s=None,
        )
        self.progress.note(start, trial)


def _follow(follower: "Follower", progress: Progress) -> "JobState | None":
    with _asking(progress.say, follower.cancel):
        return follower.follow()


def _conclude(follower: "Follower", state: "JobState", following: Following, resume: str) -> None:
    """Print what the run came to, and leave with what follows from it."""
    job, store = follower.job, following.store
    study = store.study(job.run_id)
    finished = study is not None and study.status is StudyStatus.FINISHED
    if study is not None and finished:
        _print(study, follower, store, following.format_)
        if study.conclusion is Conclusion.NO_CANDIDATE:
            raise typer.Exit(EXIT_NO_CANDIDATE)
        return
    if state.status == "Failed":
        reason = " ".join(state.reason.split()) or "SageMaker doesn't say why"
        hint = state.hint() or f"its log: CloudWatch, /aws/sagemaker/TrainingJobs, {job.name}"
        raise CloudError(f"job {job.name} failed: {reason}", hint=f"{hint}; go on with: {resume}")
    kept = len(store.trials(job.run_id))
    if study is not None and follower.best is not None:
        _print(study, follower, store, following.format_)
    follower.say(
        f"job {job.name} has ended ({state.phase or state.status}) before the study had: "
        f"{kept} trials are kept; go on with: {resume}"
    )
    raise typer.Exit(EXIT_INTERRUPTED)


def _print(study: Study, follower: "Follower", store: Store, format_: Format) -> None:
    # Inside it was written to the container's folder; here it goes where it was asked for.
    study = replace(study, spec=replace(study.spec, output=follower.job.output))
    saved = save_file(study, store, follower.best)
    try:
        end = replace(recall(study, store).end, best=follower.best)
    except AutotuneError as error:
        # The container's autotune may know knobs that this one doesn't. The answer is here anyway.
        follower.say(f"{error}; saved: {saved.path}")
        return
    print_answer(study, end, store.trials(study.run_id), saved, format_)


def _choice() -> str:
    """What to do after Ctrl-C: d, s or c. Without a terminal nobody can be asked: d."""
    if not (sys.stdin and sys.stdin.isatty()):
        return "d"
    while True:
        sys.stderr.write(_QUESTION)
        sys.stderr.flush()
        try:
            answer = sys.stdin.readline()
        except KeyboardInterrupt:
            return "d"
        if not answer:
            return "d"
        if (first := answer.strip().lower()[:1]) in {"d", "s", "c"}:
            return first


@contextmanager
def _asking(say: Callable[[str], None], cancel: Event) -> Iterator[None]:
    """Ctrl-C, TERM and hang-up set `cancel`."""

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        cancel.set()
        say(f"{signal.Signals(number).name}: the job goes on in any case")

    with handling(stop):
        yield

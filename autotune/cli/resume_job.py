"""`autotune resume` of a run that goes on in a SageMaker job: follow it, or submit another one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import typer

from autotune.cli.following import Following, follow_job
from autotune.cli.option_set import quotable
from autotune.cli.render import duration_text, visible
from autotune.errors import FieldError
from autotune.model import Job, StudyStatus
from autotune.sagemaker.installed import check_installed
from autotune.storage import Store
from autotune.storage.changes import read_changes
from autotune.storage.objects import open_objects
from autotune.storage.replay import fold


def jobs_of(store: Store, run: str) -> list[Job]:
    """The jobs of the run that `run` names, the oldest first; none if it has none.

    `latest` is the newest of all runs. Raises FieldError if more than one run with jobs fits.
    """
    jobs = store.jobs(lambda error: None)
    if run == "latest":
        studies = store.studies(lambda error: None)
        newest = jobs[-1] if jobs else None
        if newest is None or (studies and studies[-1].created_at > newest.submitted_at
                              and studies[-1].run_id != newest.run_id):  # fmt: skip
            return []
        run = newest.run_id
    ids = sorted({job.run_id for job in jobs if run and job.run_id.startswith(run)})
    if run in ids:
        ids = [run]
    if len(ids) > 1:
        raise FieldError("RUN", run, "fits more than one run", alternatives=ids)
    return [job for job in jobs if job.run_id in ids]


def resume_job(
    jobs: Sequence[Job],
    following: Following,
    *,
    max_usd: float | None,
    detach: bool,
    others: Mapping[str, object],
) -> None:
    """Follow the last of the run's jobs, or submit the next one if it ended too early.

    Raises FieldError for options that mean nothing here, and as `follow_job` does.
    """
    for name, given in others.items():
        if given:
            raise FieldError(name, quotable(given), "doesn't go with a run in a SageMaker job")
    check_installed()
    from autotune.sagemaker.account import Account  # noqa: PLC0415 - boto3 is an extra
    from autotune.sagemaker.jobs import find  # noqa: PLC0415
    from autotune.sagemaker.submission import submit_again  # noqa: PLC0415

    account, last = Account(jobs[-1].region), jobs[-1]
    state = find(account, last.name)
    if state is None or (state.has_ended and not _is_finished(last)):
        wanted = [replace(job, max_cost_usd=max_usd or job.max_cost_usd) for job in jobs]
        last = submit_again(account, wanted, following.store)
        why = "was never submitted" if state is None else f"has ended ({state.status})"
        typer.echo(
            f"job {jobs[-1].name} {why}; {visible(last.described)}\n"
            f"run {last.run_id}: goes on in job {last.name}, for at most "
            f"{duration_text(last.max_runtime_s)}",
            err=True,
        )
    elif max_usd is not None:
        raise FieldError("--max-cost", f"{max_usd:g}usd", f"comes too late for job {last.name}")
    if detach:
        typer.echo(f"follow it with: {following.resume_command(last.run_id)}", err=True)
    else:
        follow_job(account, last, following)


def _is_finished(job: Job) -> bool:
    """Whether the job's study has come to its end, by what it has written. Raises StorageError."""
    known = fold(read_changes(open_objects(job.s3, "--s3"), job.run_id))
    return known.status is not None and known.status.status is StudyStatus.FINISHED

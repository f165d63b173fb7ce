"""Sends a run's files to S3 and submits its job: the first one, and later ones."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

from autotune.errors import FieldError
from autotune.model import Job
from autotune.sagemaker.account import Account
from autotune.sagemaker.bundle import JOB, JobFile, code_objects
from autotune.sagemaker.cost import LEAST_STARTING_S
from autotune.sagemaker.jobs import find, submit
from autotune.sagemaker.plan import Plan, another_request, job_name
from autotune.storage import Store
from autotune.storage.objects import Objects, open_objects


def submit_new(
    account: Account, plan: Plan, store: Store, work: Mapping[str, bytes], workload: str
) -> Job:
    """The run's first job, with the user's files in `work`.

    Raises UserError, StorageError, and as `aws_errors` does.
    """
    document, job = plan.checked(), plan.job()
    account.check_bucket(urlsplit(job.s3).netloc)
    objects = open_objects(job.s3, "--s3")
    for name, content in code_objects(job.nodes, work, workload).items():
        objects.put(name, content)
    _put_job(objects, job, spent_usd=0.0)
    # Recorded first: whatever happens now, no job runs that nobody remembers.
    store.add_job(job)
    submit(account, document)
    return job


def submit_again(account: Account, jobs: Sequence[Job], store: Store) -> Job:
    """Another job of the run that `jobs` are of; it goes on from what they have written.

    Raises FieldError if the money that the run may cost is spent, else as `submit_new` does.
    """
    last = jobs[-1]
    spent_usd = _spent_usd(account, jobs)
    name, runtime_s = job_name(last.run_id, len(jobs)), _runtime_left(jobs, spent_usd)
    document = another_request(last, name, runtime_s)
    job = replace(last, name=name, submitted_at=datetime.now(UTC), max_runtime_s=runtime_s)
    _put_job(open_objects(job.s3, "--s3"), job, spent_usd=spent_usd)
    store.add_job(job)
    submit(account, document)
    return job


def _put_job(objects: Objects, job: Job, *, spent_usd: float) -> None:
    """Last of all files: with it the job's files are whole."""
    content = JobFile(
        run_id=job.run_id, arguments=job.arguments, s3=job.s3, nodes=job.nodes,
        time_limit_s=job.max_runtime_s, cost_limit_usd=job.max_cost_usd,
        usd_per_hour=job.usd_per_hour, spent_usd=spent_usd,
    )  # fmt: skip
    objects.put(JOB, content.to_bytes())


def _spent_usd(account: Account, jobs: Sequence[Job]) -> float:
    """What the run's jobs have cost, on demand; 0 if nothing limits it, so that nobody is asked."""
    if jobs[-1].max_cost_usd is None or jobs[0].usd_per_hour is None:
        return 0.0
    states = [find(account, job.name) for job in jobs]
    return sum(state.billable_s for state in states if state) * jobs[0].usd_per_hour / 3600


def _runtime_left(jobs: Sequence[Job], spent_usd: float) -> int:
    """As long as the first job might run, or as the money lasts that its jobs left."""
    wanted_s, most = jobs[0].max_runtime_s, jobs[-1].max_cost_usd
    if most is None or jobs[0].usd_per_hour is None:
        return wanted_s
    left_s = int(3600 * (most - spent_usd) / jobs[0].usd_per_hour)
    if left_s < LEAST_STARTING_S:
        raise FieldError(
            "--max-cost", f"{most:g}usd",
            f"is spent: the run's jobs have cost about {spent_usd:.2f} USD on demand",
            hint="give more: autotune resume RUN --max-cost …usd",
        )  # fmt: skip
    return min(wanted_s, left_s)

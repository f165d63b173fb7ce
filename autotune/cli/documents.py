"""Studies and trials as JSON, with the names of the YAML document."""

from collections.abc import Iterable
from typing import Any

from autotune.errors import UnreadableError
from autotune.exporters.document import settings_document, target_document
from autotune.model import Job, Study, StudyStatus, Trial, encode
from autotune.run_lease import is_stale
from autotune.scoring.score import score
from autotune.storage.lease import Lease

SUBMITTED = "submitted"
"""The status of a run whose job has sent nothing yet, as far as is known here."""
IN_JOB = "in a job"
"""The status of a run that hadn't ended in its job, when that was last followed."""
STALE = "stale"
"""The status of a run that hasn't ended, and that no process works on."""


def status(study: Study, lease: Lease | None, job: Job | None = None) -> str:
    """Where the study stands: the store doesn't learn of a controller that was killed.

    `job` is the last one that the run has elsewhere, if it has one.
    """
    if job is not None and study.status is StudyStatus.RUNNING:
        return IN_JOB
    return STALE if is_stale(study, lease) else study.status.value


def latest_jobs(jobs: Iterable[Job]) -> dict[str, Job]:
    """The last job of each run that has one; `jobs` are in the order of their submission."""
    return {job.run_id: job for job in jobs}


def job_document(job: Job) -> dict[str, Any]:
    """A run of which nothing is known but that it was submitted."""
    return {
        "run": job.run_id,
        "kind": "measured",
        "for": job.described,
        "status": SUBMITTED,
        "conclusion": None,
        "created": encode(job.submitted_at),
        "job": job.name,
        "trials": 0,
    }


def kind(study: Study) -> str:
    """Whether a study's figures were `measured` or `simulated`."""
    return "simulated" if study.spec.target.is_simulated else "measured"


def study_document(study: Study, lease: Lease | None, job: Job | None = None) -> dict[str, Any]:
    """A study; what was asked of it is under `spec`."""
    spec = encode(study.spec)
    del spec["target"]
    return {
        "run": study.run_id,
        "kind": kind(study),
        "for": target_document(study.spec.target),
        "status": status(study, lease, job),
        **({"job": job.name} if job else {}),
        "conclusion": encode(study.conclusion),
        "reason": study.reason,
        "created": encode(study.created_at),
        "updated": encode(study.updated_at),
        "machine": encode(study.machine),
        "spec": spec,
    }


def unreadable_document(error: UnreadableError) -> dict[str, Any]:
    """What is known of a record that can't be read; `record` is its run id or trial number."""
    return {"record": error.key, "status": "unreadable", "reason": str(error)}


def trial_document(trial: Trial, study: Study) -> dict[str, Any]:
    """A trial of `study`."""
    data: dict[str, Any] = encode(trial)
    for name in ("run_id", "environment", "started_at"):
        del data[name]
    return data | {
        "score": _score_document(trial),
        "started": encode(trial.started_at),
        "settings": settings_document(trial.settings, trial.environment, study.spec.target.ranks),
    }


def _score_document(trial: Trial) -> dict[str, Any] | None:
    """What the search ranks it by, with every component; None if it doesn't count."""
    if trial.scored is None:
        return None
    found = score(trial.scored)
    return {
        "value": found.value,
        "samples_per_second": found.samples_per_second,
        "stability": found.stability,
        "tail": found.tail,
        "allocation": found.allocation,
        "disturbed_windows": list(found.outliers),
    }

"""Studies and trials as JSON, with the names of the YAML document."""

from typing import Any

from autotune.exporters.document import settings_document, target_document
from autotune.model import Study, StudyStatus, Trial, encode
from autotune.run_lock import is_abandoned

STALE = "stale"
"""The status of a run that was started here, hasn't ended, and that no process works on."""


def status(study: Study) -> str:
    """Where the study stands: the store doesn't learn of a controller that was killed."""
    if study.status is StudyStatus.RUNNING and is_abandoned(study.run_id):
        return STALE
    return study.status.value


def kind(study: Study) -> str:
    """Whether a study's figures were `measured` or `simulated`."""
    return "simulated" if study.spec.target.is_simulated else "measured"


def study_document(study: Study) -> dict[str, Any]:
    """A study; what was asked of it is under `spec`."""
    spec = encode(study.spec)
    del spec["target"]
    return {
        "run": study.run_id,
        "kind": kind(study),
        "for": target_document(study.spec.target),
        "status": status(study),
        "conclusion": encode(study.conclusion),
        "reason": study.reason,
        "created": encode(study.created_at),
        "updated": encode(study.updated_at),
        "machine": encode(study.machine),
        "spec": spec,
    }


def trial_document(trial: Trial, study: Study) -> dict[str, Any]:
    """A trial of `study`."""
    data: dict[str, Any] = encode(trial)
    for name in ("run_id", "environment", "started_at"):
        del data[name]
    return data | {
        "started": encode(trial.started_at),
        "settings": settings_document(trial.settings, trial.environment, study.spec.target.ranks),
    }

"""The study of a job: begun, or gone on with from what earlier jobs have left in S3."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import StorageError
from autotune.model import StudyStatus
from autotune.sagemaker.inside.child import Child
from autotune.sagemaker.inside.job import Job
from autotune.sagemaker.inside.layout import Layout
from autotune.sagemaker.inside.notice import STUDY_S, Notice
from autotune.storage import Store
from autotune.storage.changes import read_changes
from autotune.storage.mirror import send_missing
from autotune.storage.objects import Objects
from autotune.storage.replay import apply_known, fold
from autotune.tracking.cloudwatch import METRICS

_LEFT_OPEN = 130
"""The controller's exit code when it was interrupted, or its time limit has come."""
_NO_CANDIDATE = 3
_CONTEXT = 6
"""Lines of a failure that is no error of ours."""
_KEPT = ("--cold", "--live")
"""Options that are `resume`'s too."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How the study ended in this job."""

    code: int
    """As `autotune run` exits."""
    said: Sequence[str] = ()
    """Its last lines on stderr."""
    reason: str = ""
    """Of its conclusion, if it came to one."""

    @property
    def failure(self) -> str:
        """What a person has to read of it, the reason first; empty if all went well."""
        if not self.code:
            return ""
        lines = [line for line in self.said if line.strip() and not line.startswith(METRICS)]
        errors = [n for n, line in enumerate(lines) if line.startswith("error: ")]
        if errors:
            return "\n".join(lines[errors[-1] :])
        # The last line says most.
        concluded = self.reason if self.code in (_LEFT_OPEN, _NO_CANDIDATE) else ""
        reason = concluded or f"the study ended with exit code {self.code}"
        return "\n".join([reason, *lines[-1:], *lines[-_CONTEXT:-1]])


def restore(store: Store, objects: Objects, job: Job) -> StudyStatus | None:
    """Have `store` hold what earlier jobs have done: where the study stands, None if it is new.

    Raises StorageError if that can't be read: then nothing may be run again either.
    """
    known = fold(read_changes(objects, job.run_id))
    apply_known(store, known)
    return known.status.status if known.status else None


def command(
    job: Job, *, goes_on: bool, address: str = "", time_limit_s: float | None = None
) -> list[str]:
    """The command line of the controller; `address` is the Ray cluster's, if there is one."""
    here = [sys.executable, "-m", "autotune"]
    ours = ["--mirror", job.mirror, "--log-to", "cloudwatch:stderr"]
    if time_limit_s is not None:
        ours += ["--time-limit", f"{time_limit_s:.0f}s"]
    if address:
        ours += ["--executor", "ray", "--address", address]
    if goes_on:
        kept = [word for word in job.options if word in _KEPT]
        return [*here, "resume", job.run_id, *ours, *kept]
    if address:
        ours += ["--nodes", str(job.nodes)]
    return [*here, "run", *ours, "--run-id", job.run_id, *job.arguments]


def run(words: Sequence[str], layout: Layout, variables: Mapping[str, str], stop: Notice) -> Ending:
    """The controller, until it ends; once `stop` is set it is interrupted, and then ended.

    That its time is up is no failure: what it leaves open is the next job's.
    """
    child = Child(words, variables=variables, folder=layout.work)
    while not child.wait(0.5):
        if stop.is_set():
            child.ask()
            child.wait(stop.left_s(STUDY_S))
            child.end(patience_s=0.0)
    code = child.exit_code or 0
    return Ending(code=0 if code == _LEFT_OPEN and not stop.is_set() else code, said=child.said)


def send_rest(store: Store, objects: Objects, run_id: str) -> str:
    """Send what a controller that was killed couldn't: why that failed, or an empty text."""
    try:
        send_missing(store, objects, run_id)
    except StorageError as error:
        return str(error)
    return ""

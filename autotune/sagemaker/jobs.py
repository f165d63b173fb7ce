"""Training jobs: submit, look, stop. Raises as `aws_errors` does."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from autotune.errors import UserError
from autotune.sagemaker.account import Account
from autotune.sagemaker.aws_errors import aws_errors, find_case

ENDED = ("Completed", "Failed", "Stopped")


@dataclass(frozen=True, kw_only=True)
class JobState:
    """What SageMaker says of a job."""

    status: str
    """InProgress, Completed, Failed, Stopping or Stopped."""
    phase: str
    """The secondary status, such as Downloading or Interrupted."""
    message: str = ""
    """Of the phase."""
    reason: str = ""
    """Why it failed."""
    billable_s: float = 0.0

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    def hint(self) -> str:
        """What to do about its failure."""
        case = find_case("", self.reason)
        return case.hint if case else ""


def submit(account: Account, request: Mapping[str, Any]) -> None:
    """Have the job run. A name that is taken is its own: an attempt before was heard, after all."""
    client = account.client("sagemaker")
    with (
        aws_errors(f"submitting {request['TrainingJobName']}"),
        suppress(client.exceptions.ResourceInUse),
    ):
        client.create_training_job(**request)


def describe(account: Account, name: str) -> JobState:
    """Where the job stands."""
    with aws_errors(f"looking at job {name}"):
        found = account.client("sagemaker").describe_training_job(TrainingJobName=name)
    steps = found.get("SecondaryStatusTransitions") or [{}]
    return JobState(
        status=found["TrainingJobStatus"],
        phase=found.get("SecondaryStatus", ""),
        message=steps[-1].get("StatusMessage", ""),
        reason=found.get("FailureReason", ""),
        billable_s=_billable(found),
    )


def find(account: Account, name: str) -> JobState | None:
    """As `describe`; None for a job that SageMaker never got, or has forgotten."""
    try:
        return describe(account, name)
    except UserError as error:
        if "not find" in str(error) or "not found" in str(error):
            return None
        raise


def stop(account: Account, name: str) -> None:
    """Have it end; what it has finished is kept."""
    with aws_errors(f"stopping job {name}"):
        account.client("sagemaker").stop_training_job(TrainingJobName=name)


def _billable(found: Mapping[str, Any]) -> float:
    """SageMaker says it once the job has ended; until then it is the time since it began."""
    if "BillableTimeInSeconds" in found:
        return float(found["BillableTimeInSeconds"])
    began = found.get("TrainingStartTime")
    ended = found.get("TrainingEndTime") or datetime.now(UTC)
    return max(0.0, (ended - began).total_seconds()) if began else 0.0

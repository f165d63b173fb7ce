"""From what was asked for to a request that SageMaker takes; nothing is sent."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from autotune.errors import FieldError
from autotune.model import Job
from autotune.sagemaker.cost import Cost
from autotune.sagemaker.limits import check_request, training_instances
from autotune.sagemaker.request import JobRequest


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One job, not yet submitted."""

    request: JobRequest
    cost: Cost
    region: str
    described: str
    arguments: Sequence[str]
    output: str | None = None

    def checked(self) -> dict[str, Any]:
        """The request, held to the API's limits. Raises UserError."""
        document = self.request.document()
        check_request(document)
        return document

    def job(self) -> Job:
        """The record of it, as submitted now."""
        return Job(
            name=self.request.name,
            run_id=self.request.run_id,
            submitted_at=datetime.now(UTC),
            region=self.region,
            s3=self.request.s3,
            instance=self.request.instance,
            nodes=self.request.nodes,
            described=self.described,
            max_runtime_s=self.request.max_runtime_s,
            usd_per_hour=self.cost.usd_per_hour,
            max_cost_usd=self.cost.max_usd,
            is_spot=self.cost.is_spot,
            output=self.output,
            request=json.dumps(self.request.document()),
            arguments=tuple(self.arguments),
        )


def job_name(run_id: str, earlier: int = 0) -> str:
    """Of a run's job after so many earlier ones."""
    return f"autotune-{run_id}" + (f"-{earlier + 1}" if earlier else "")


def check_instance(name: str) -> None:
    """Raises FieldError for a machine type that SageMaker doesn't train on."""
    known = training_instances()
    if name not in known:
        raise FieldError(
            "--instance", name, "is no type that SageMaker trains on",
            alternatives=[other for other in known if other[0] in "gp"],
        )  # fmt: skip


def another_request(job: Job, name: str, max_runtime_s: int) -> dict[str, Any]:
    """The request of `job` for another one of the same run."""
    document: dict[str, Any] = json.loads(job.request)
    stopping: Mapping[str, int] = document["StoppingCondition"]
    waits_s = stopping.get("MaxWaitTimeInSeconds", 0) - stopping["MaxRuntimeInSeconds"]
    document["TrainingJobName"] = name
    document["StoppingCondition"] = {"MaxRuntimeInSeconds": max_runtime_s}
    if waits_s >= 0:
        document["StoppingCondition"]["MaxWaitTimeInSeconds"] = max_runtime_s + waits_s
    check_request(document)
    return document

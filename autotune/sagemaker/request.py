"""The CreateTrainingJob request of a job that tunes inside itself. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autotune.tracking.cloudwatch import METRICS, metric_regex

ENTRYPOINT = ("/bin/bash", "-c", "python3 /opt/ml/input/data/code/start.py")
CODE = "code"
"""The channel, and the folder of the run's prefix that it has."""
VOLUME_GB = 50
"""Of EBS on each node whose instance has no disks of its own: for the wheel, logs and the store."""


@dataclass(frozen=True, kw_only=True)
class JobRequest:
    """What is asked of SageMaker."""

    name: str
    run_id: str
    role: str
    image: str
    instance: str
    """The catalogue's name, without ml."""
    nodes: int
    s3: str
    """s3://BUCKET/PREFIX/RUN."""
    max_runtime_s: int
    max_wait_s: int | None = None
    """With spot instances: for capacity and running, interruptions included."""
    keep_alive_s: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The request as the API takes it."""
        document: dict[str, Any] = {
            "TrainingJobName": self.name,
            "RoleArn": self.role,
            "AlgorithmSpecification": {
                "TrainingImage": self.image,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": list(ENTRYPOINT),
                "MetricDefinitions": [
                    {"Name": name, "Regex": metric_regex(name)} for name in METRICS
                ],
            },
            "InputDataConfig": [_channel(f"{self.s3}/{CODE}/")],
            "OutputDataConfig": {"S3OutputPath": f"{self.s3}/output"},
            "ResourceConfig": self._resources(),
            "StoppingCondition": {"MaxRuntimeInSeconds": self.max_runtime_s},
            "Environment": dict(self.environment),
            "Tags": [{"Key": "autotune:run", "Value": self.run_id}],
        }
        if self.max_wait_s is not None:
            document["EnableManagedSpotTraining"] = True
            document["StoppingCondition"]["MaxWaitTimeInSeconds"] = self.max_wait_s
        return document

    def _resources(self) -> dict[str, Any]:
        resources: dict[str, Any] = {
            "InstanceType": f"ml.{self.instance}",
            "InstanceCount": self.nodes,
            "VolumeSizeInGB": VOLUME_GB,
        }
        if self.keep_alive_s is not None:
            resources["KeepAlivePeriodInSeconds"] = self.keep_alive_s
        return resources


def _channel(uri: str) -> dict[str, Any]:
    return {
        "ChannelName": CODE,
        "InputMode": "File",
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "S3Prefix",
                "S3Uri": uri,
                "S3DataDistributionType": "FullyReplicated",
            }
        },
    }

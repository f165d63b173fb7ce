"""The AWS account that jobs run in: its region, its clients, and what goes by default in it."""

from functools import cached_property
from typing import Any

from botocore.config import Config

from autotune.errors import UserError
from autotune.sagemaker.aws_errors import aws_errors
from autotune.storage.s3 import session

ROLE = "autotune-sagemaker"
"""The role's name in docs/sagemaker.md."""
PREFIX = "autotune"
_SETTINGS = Config(
    connect_timeout=10, read_timeout=30, retries={"mode": "standard", "max_attempts": 8}
)
"""Standard retries wait longer each time, up to 20 s, also when AWS throttles."""


class Account:
    """What boto3 knows from the environment, its files, or the machine's role."""

    def __init__(self, region: str | None = None) -> None:
        with aws_errors("AWS"):
            self._session = session(region)
            self.region: str | None = self._session.region_name or None
        self._clients: dict[str, Any] = {}

    @cached_property
    def number(self) -> str:
        """The account's number. Raises as `aws_errors` does."""
        with aws_errors("asking who you are (sts:GetCallerIdentity)"):
            return str(self.client("sts").get_caller_identity()["Account"])

    def client(self, service: str) -> Any:
        """A client for `service`, which retries what is throttled or fails for a moment."""
        if service not in self._clients:
            with aws_errors(service):
                self._clients[service] = self._session.client(service, config=_SETTINGS)
        return self._clients[service]

    def check_bucket(self, bucket: str) -> None:
        """Raises UserError if it isn't there, isn't ours to use, or is elsewhere."""
        with aws_errors(f"s3://{bucket}"):
            found = self.client("s3").list_objects_v2(Bucket=bucket, MaxKeys=1)
        headers = found.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        where = headers.get("x-amz-bucket-region", self.region)
        if where != self.region:
            raise UserError(
                f"s3://{bucket}: is in {where}, and the job would run in {self.region}",
                hint="name a bucket of the job's region with --s3, or set AWS_REGION",
            )

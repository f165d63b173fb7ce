"""The IAM policies in the docs: exactly what the code asks of AWS, and no more."""

import json
import re
from pathlib import Path

import botocore.session
from botocore import xform_name

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "docs" / "sagemaker"
PREFIXES = {
    "sagemaker": "sagemaker", "s3": "s3", "sts": "sts", "iam": "iam", "ecr": "ecr",
    "service-quotas": "servicequotas",
}  # fmt: skip
OTHER_NAMES = {"s3:ListObjectsV2": "s3:ListBucket"}
IMPLIED = {"iam:PassRole", "sagemaker:AddTags"}
"""Of a request with a role and tags."""
PLATFORM = {
    "logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents",
    "cloudwatch:PutMetricData", "ecr:GetAuthorizationToken", "ecr:BatchCheckLayerAvailability",
    "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage",
}  # fmt: skip
"""What SageMaker does for a job by the job's role."""


def allowed(name: str) -> set[str]:
    found: set[str] = set()
    for statement in json.loads((POLICIES / name).read_text())["Statement"]:
        assert statement["Effect"] == "Allow"
        actions = statement["Action"]
        found |= {actions} if isinstance(actions, str) else set(actions)
    return found


def called(*places: Path) -> set[str]:
    """Actions of the operations that the sources name, as a client's method or a paginator's."""
    text = "\n".join(t for t in (path.read_text() for path in places) if "client" in t)
    words = set(re.findall(r"\.(\w+)\(", text)) | set(re.findall(r"\"(\w+)\"", text))
    actions = set()
    for service, prefix in PREFIXES.items():
        if service != "s3" and f'client("{service}")' not in text:
            continue
        model = botocore.session.get_session().get_service_model(service)
        for operation in model.operation_names:
            if xform_name(operation) in words:
                action = f"{prefix}:{operation}"
                actions.add(OTHER_NAMES.get(action, action))
    return actions


def test_the_users_policy_is_what_the_client_calls() -> None:
    sources = [*(ROOT / "autotune/sagemaker").glob("*.py"), ROOT / "storage/s3.py"]
    assert called(*sources) | IMPLIED == allowed("user-policy.json")


def test_the_roles_policy_is_what_the_job_calls() -> None:
    assert called(ROOT / "storage/s3.py") | PLATFORM == allowed("role-policy.json")


def test_nothing_else_inside_talks_to_aws() -> None:
    for path in (ROOT / "autotune/sagemaker/inside").glob("*.py"):
        assert "boto3" not in path.read_text(), path


def test_sagemaker_alone_may_take_on_the_role() -> None:
    (statement,) = json.loads((POLICIES / "trust-policy.json").read_text())["Statement"]
    assert statement["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert statement["Action"] == "sts:AssumeRole"

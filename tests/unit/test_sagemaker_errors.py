"""What AWS's errors become: by botocore's own errors, one for each row of the table."""

from collections.abc import Iterator

import boto3
import pytest
from botocore import exceptions as boto
from botocore.stub import Stubber

from autotune.errors import AutotuneError, CloudError, CloudOutageError, UserError
from autotune.sagemaker.account import Account
from autotune.sagemaker.aws_errors import CASES, aws_errors, find_case
from autotune.sagemaker.jobs import describe, find, stop, submit

QUOTA = (
    "The account-level service limit 'ml.p4d.24xlarge for training job usage' is 0 Instances, with "
    "current utilization of 0 Instances and a request delta of 2 Instances."
)
DENIED = "User: arn:aws:iam::1:user/x is not authorized to perform: "
SAID = [
    ("ResourceLimitExceeded", QUOTA, CloudError, "quota doesn't allow this many"),
    ("InternalFailure", "CapacityError: Unable to provision", CloudError, "no such instances free"),
    ("InsufficientCapacityException", "", CloudError, "no such instances free"),
    (
        "ValidationException",
        "Could not assume role arn:aws:iam::1:role/x",
        UserError,
        "take on the",
    ),
    ("AccessDeniedException", DENIED + "iam:PassRole on x", UserError, "may not hand the role"),
    ("AccessDeniedException", DENIED + "sagemaker:CreateTrainingJob", UserError, "access denied"),
    ("ExpiredTokenException", "The security token included is expired", UserError, "have expired"),
    ("UnrecognizedClientException", "The security token is invalid", UserError, "doesn't know"),
    ("IllegalLocationConstraintException", "", UserError, "in another region"),
    ("OptInRequired", "", UserError, "isn't open to the account"),
    ("NoSuchBucket", "", UserError, "no such bucket"),
    ("NoSuchEntity", "", UserError, "no such role"),
    ("ThrottlingException", "Rate exceeded", CloudOutageError, "fewer requests"),
    ("ServiceUnavailable", "", CloudOutageError, "can't be reached"),
    ("ValidationException", "1 validation error detected", UserError, "refuses the request"),
]
RAISED = [
    (boto.NoCredentialsError(), UserError, "no AWS credentials here"),
    (boto.ProfileNotFound(profile="x"), UserError, "configuration can't be used"),
    (boto.NoRegionError(), UserError, "no AWS region"),
    (boto.EndpointConnectionError(endpoint_url="https://x"), CloudOutageError, "can't be reached"),
    (boto.UnauthorizedSSOTokenError(), UserError, "have expired"),
]


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Account, Stubber]]:
    account = Account("us-east-1")
    client = boto3.client(
        "sagemaker", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    monkeypatch.setattr(account, "client", lambda service: client)
    with Stubber(client) as stubber:
        yield account, stubber


@pytest.mark.parametrize(("code", "message", "kind", "says"), SAID)
def test_an_error_of_the_api_is_explained(
    code: str,
    message: str,
    kind: type[AutotuneError],
    says: str,
    stubbed: tuple[Account, Stubber],
) -> None:
    account, stubber = stubbed
    stubber.add_client_error("describe_training_job", code, message)
    with pytest.raises(kind) as raised:
        describe(account, "autotune-r")
    assert type(raised.value) is kind
    assert says in str(raised.value)
    assert "job autotune-r" in str(raised.value)
    assert code in str(raised.value), "AWS's own words are kept"
    assert raised.value.hint


@pytest.mark.parametrize(("error", "kind", "says"), RAISED)
def test_an_error_of_botocore_is_explained(
    error: Exception, kind: type[AutotuneError], says: str
) -> None:
    with pytest.raises(kind, match=says) as raised, aws_errors("asking"):
        raise error
    assert raised.value.hint


def test_every_row_of_the_table_is_tried() -> None:
    tried = [find_case(code, f"{code}: {message}") for code, message, _, _ in SAID]
    tried += [find_case(type(error).__name__, str(error)) for error, _, _ in RAISED]
    assert [case.says for case in CASES if case not in tried] == ["there is such a job already"]


def test_an_error_that_is_not_known_keeps_its_words() -> None:
    with pytest.raises(CloudError, match="asking: Odd: words"), aws_errors("asking"):
        raise boto.ClientError({"Error": {"Code": "Odd", "Message": "words"}}, "Ask")


def test_a_job_whose_name_is_taken_was_submitted_before(stubbed: tuple[Account, Stubber]) -> None:
    account, stubber = stubbed
    stubber.add_client_error("create_training_job", "ResourceInUse", "must be unique")
    submit(account, {
        "TrainingJobName": "autotune-r",
        "RoleArn": "arn:aws:iam::123456789012:role/x",
        "OutputDataConfig": {"S3OutputPath": "s3://b/x"},
    })  # fmt: skip


def test_a_job_is_stopped_by_its_name(stubbed: tuple[Account, Stubber]) -> None:
    account, stubber = stubbed
    stubber.add_response("stop_training_job", {}, {"TrainingJobName": "autotune-r"})
    stop(account, "autotune-r")
    stubber.assert_no_pending_responses()


def test_a_job_that_was_never_submitted_is_not_found(stubbed: tuple[Account, Stubber]) -> None:
    account, stubber = stubbed
    stubber.add_client_error(
        "describe_training_job", "ValidationException", "Requested resource not found."
    )
    assert find(account, "autotune-r") is None
    stubber.add_client_error("describe_training_job", "ValidationException", "odd")
    with pytest.raises(UserError, match="refuses the request"):
        find(account, "autotune-r")

"""What AWS's errors mean here, and what to do about them: a table, and functions over texts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from botocore import exceptions as boto

from autotune.errors import AutotuneError, CloudError, CloudOutageError, UserError

DOCS = "docs/sagemaker.md"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of failure. It is the first in the table of which a code and a text fit."""

    codes: tuple[str, ...] = ()
    """Of the API's errors, or names of botocore's classes; empty fits all."""
    text: str = ""
    """In the message."""
    says: str
    hint: str
    kind: type[AutotuneError] = CloudError

    def fits(self, code: str, message: str) -> bool:
        is_code = not self.codes or code in self.codes
        return is_code and self.text.lower() in message.lower()


_DENIED = ("AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation",
           "403", "NotAuthorized")  # fmt: skip
_THROTTLED = ("Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded",
              "TooManyRequestsException", "SlowDown", "RequestThrottled")  # fmt: skip
_LOGIN = "log in again: aws sso login, aws configure, or new keys in AWS_ACCESS_KEY_ID and so on"

CASES = (
    Case(
        codes=("ResourceLimitExceeded", "ServiceQuotaExceededException"),
        says="the account's quota doesn't allow this many instances",
        hint="ask for more: Service Quotas, Amazon SageMaker, 'for training job usage' (with "
        "--spot 'for spot training job usage'); autotune doctor --executor sagemaker shows it",
    ),
    Case(
        text="CapacityError",
        says="AWS has no such instances free now",
        hint="try again later, in another region (AWS_REGION), or reserve them with a training "
        "plan; autotune resume submits the run again",
    ),
    Case(
        codes=("InsufficientCapacityException", "InsufficientInstanceCapacity"),
        says="AWS has no such instances free now",
        hint="try again later, or in another region (AWS_REGION)",
    ),
    Case(
        text="assume role",
        says="SageMaker can't take on the role",
        hint=f"its trust policy has to name sagemaker.amazonaws.com: {DOCS}",
        kind=UserError,
    ),
    Case(
        text="iam:PassRole",
        says="your user may not hand the role to SageMaker",
        hint=f"iam:PassRole is needed on the role: docs/sagemaker/user-policy.json, see {DOCS}",
        kind=UserError,
    ),
    Case(
        codes=_DENIED,
        says="access denied",
        hint=f"your user needs what docs/sagemaker/user-policy.json lists, the job's role what "
        f"role-policy.json lists: {DOCS}",
        kind=UserError,
    ),
    Case(
        codes=(
            "ExpiredToken",
            "ExpiredTokenException",
            "RequestExpired",
            "TokenRefreshRequired",
            "UnauthorizedSSOTokenError",
            "SSOTokenLoadError",
            "TokenRetrievalError",
        ),
        says="the credentials have expired",
        hint=_LOGIN,
        kind=UserError,
    ),
    Case(
        codes=(
            "UnrecognizedClientException",
            "InvalidClientTokenId",
            "SignatureDoesNotMatch",
            "AuthFailure",
            "InvalidAccessKeyId",
            "IncompleteSignature",
        ),
        says="AWS doesn't know these credentials",
        hint=_LOGIN,
        kind=UserError,
    ),
    Case(
        codes=(
            "NoCredentialsError",
            "PartialCredentialsError",
            "CredentialRetrievalError",
            "NoAuthTokenError",
        ),
        says="there are no AWS credentials here",
        hint="aws configure, aws sso login, AWS_PROFILE, or a role of the machine",
        kind=UserError,
    ),
    Case(
        codes=("ProfileNotFound", "ConfigNotFound", "ConfigParseError"),
        says="AWS's configuration can't be used",
        hint="see ~/.aws/config and AWS_PROFILE",
        kind=UserError,
    ),
    Case(
        codes=("NoRegionError",),
        says="no AWS region is set",
        hint="export AWS_REGION=us-east-1, or aws configure set region us-east-1",
        kind=UserError,
    ),
    Case(
        codes=(
            "PermanentRedirect",
            "AuthorizationHeaderMalformed",
            "301",
            "IllegalLocationConstraintException",
        ),
        says="the bucket is in another region than the job",
        hint="name a bucket of the job's region with --s3, or set AWS_REGION to the bucket's",
        kind=UserError,
    ),
    Case(
        codes=("OptInRequired", "InvalidRegion", "InvalidRegionError", "UnknownEndpoint"),
        says="this region isn't open to the account",
        hint="enable it for the account, or set AWS_REGION to another one",
        kind=UserError,
    ),
    Case(
        codes=("NoSuchBucket",),
        says="there is no such bucket",
        hint="make it: aws s3 mb s3://BUCKET, or name another one with --s3",
        kind=UserError,
    ),
    Case(
        codes=("NoSuchEntity", "NoSuchEntityException"),
        says="there is no such role",
        hint="make it: aws iam create-role --role-name ROLE --assume-role-policy-document "
        f"file://docs/sagemaker/trust-policy.json, and give it its policy: {DOCS}, step 2; or name "
        "another one with --role",
        kind=UserError,
    ),
    Case(
        codes=("ResourceInUse",),
        says="there is such a job already",
        hint="follow it: autotune resume RUN",
    ),
    Case(
        codes=_THROTTLED,
        says="AWS still asks for fewer requests, after several attempts",
        hint="try again in some minutes",
        kind=CloudOutageError,
    ),
    Case(
        codes=(
            "EndpointConnectionError",
            "ConnectTimeoutError",
            "ReadTimeoutError",
            "ConnectionClosedError",
            "ConnectionError",
            "ProxyConnectionError",
            "HTTPClientError",
            "SSLError",
            "InternalFailure",
            "InternalServerError",
            "ServiceUnavailable",
            "ServiceUnavailableException",
            "InternalError",
            "500",
            "503",
        ),
        says="AWS can't be reached",
        hint="see whether the network is up, and the region's name (AWS_REGION) is right",
        kind=CloudOutageError,
    ),
    Case(
        codes=("ValidationException", "ValidationError", "ParamValidationError"),
        says="AWS refuses the request",
        hint="autotune run … --dry-run shows it",
        kind=UserError,
    ),
)


@contextmanager
def aws_errors(what: str) -> Iterator[None]:
    """Turns errors of boto3 into ours; `what` is what was being done.

    Raises UserError, CloudError and CloudOutageError.
    """
    try:
        yield
    except boto.ClientError as error:
        found = error.response.get("Error", {})
        raise explained(what, str(found.get("Code", "")), found.get("Message", "")) from error
    except boto.BotoCoreError as error:
        raise explained(what, type(error).__name__, str(error)) from error


def explained(what: str, code: str, message: str) -> AutotuneError:
    """The error to raise for one of AWS's."""
    case = find_case(code, message)
    said = " ".join(f"{code}: {message}".split())
    if case is None:
        return CloudError(f"{what}: {said}")
    return case.kind(f"{what}: {case.says} ({said})", hint=case.hint)


def find_case(code: str, message: str) -> Case | None:
    """The table's row for it."""
    return next((case for case in CASES if case.fits(code, f"{code}: {message}")), None)

"""Objects in Amazon S3, or in what speaks its protocol (AWS_ENDPOINT_URL_S3)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from autotune.errors import OutageError, StorageError, UserError
from autotune.storage.objects import Objects, check_size

try:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
except ImportError as missing:
    raise UserError(
        f"s3://…: boto3 can't be imported: {missing}", hint="pip install 'autotune-train[s3]'"
    ) from None

_CONNECT_S = 10.0
_READ_S = 30.0
_ABSENT = ("NoSuchKey", "404")
_TAKEN = ("PreconditionFailed", "412")
_REFUSED = ("AccessDenied", "AllAccessDisabled", "InvalidAccessKeyId", "NoSuchBucket",
            "PermanentRedirect", "SignatureDoesNotMatch")  # fmt: skip
"""What asking again doesn't mend. Of all else some does: no network, SlowDown, an expired token
that its provider renews."""


class S3Objects(Objects):
    """Objects of `bucket` whose keys begin with `prefix`; region and credentials are boto3's."""

    def __init__(self, bucket: str, prefix: str, client: Any = None) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._client = client or _client(f"s3://{bucket}")
        self.place = f"s3://{bucket}/{prefix}".rstrip("/")

    def put(self, name: str, content: bytes) -> None:
        with self._errors(name):
            self._client.put_object(Bucket=self._bucket, Key=self._key(name), Body=content)

    def put_new(self, name: str, content: bytes) -> bool:
        try:
            with self._errors(name):
                self._client.put_object(
                    Bucket=self._bucket, Key=self._key(name), Body=content, IfNoneMatch="*"
                )
        except _ThereError:
            return False
        return True

    def get(self, name: str, *, most: int | None = None) -> bytes | None:
        try:
            with self._errors(name):
                found = self._client.get_object(Bucket=self._bucket, Key=self._key(name))
                check_size(f"{self.place}/{name}", found["ContentLength"], most)
                content: bytes = found["Body"].read()
        except _AbsentError:
            return None
        return content

    def names(self, folder: str, after: str = "") -> list[str]:
        start = self._key(folder) + "/"
        with self._errors(folder):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=start, Delimiter="/", StartAfter=start + after
            )
            keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return sorted(key.removeprefix(start) for key in keys if key != start)

    def within(self, folder: str) -> "S3Objects":
        return S3Objects(self._bucket, self._key(folder), self._client)

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        place = f"{self.place}/{name}"
        try:
            yield
        except ClientError as error:
            raise _translated(place, error) from error
        except NoCredentialsError as error:
            raise StorageError(
                f"{place}: there are no AWS credentials",
                hint="aws configure, or AWS_PROFILE, or the role of the machine",
            ) from error
        except BotoCoreError as error:
            raise OutageError(f"{place}: {error}") from error


def session(region: str | None = None) -> Any:
    """A session of boto3 in `region`, else where AWS_REGION says: boto3 itself doesn't read that.

    The AWS command line and all other SDKs do. Raises BotoCoreError for files it can't read.
    """
    return boto3.Session(region_name=region or os.environ.get("AWS_REGION") or None)


class _AbsentError(StorageError):
    """There is no such object."""


class _ThereError(StorageError):
    """There is an object of this name already."""


def _client(place: str) -> Any:
    settings = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        retries={"mode": "standard", "max_attempts": 3},
    )
    try:
        return session().client("s3", config=settings)
    except (BotoCoreError, ValueError) as error:
        raise UserError(f"{place}: {error}") from None


def _translated(place: str, error: ClientError) -> StorageError:
    """By the error's code; objects that aren't there, or are, become their own kinds."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    message = error.response.get("Error", {}).get("Message") or str(error)
    if code in _ABSENT:
        return _AbsentError(f"{place}: is not there")
    if code in _TAKEN:
        return _ThereError(f"{place}: is there already")
    if code in _REFUSED:
        hint = "" if code == "NoSuchBucket" else (
            "s3:PutObject, s3:GetObject and, on the bucket, s3:ListBucket are needed"
        )  # fmt: skip
        return StorageError(f"{place}: {code}: {message}", hint=hint)
    return OutageError(f"{place}: {code}: {message}")

"""Objects in a folder and in S3: whole or absent, listed in order, never overwritten by put_new."""

import os
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.stub import Stubber

from autotune.errors import FieldError, OutageError, StorageError, UnreadableError
from autotune.storage import MemoryStore
from autotune.storage.mirrored import MirroredStore
from autotune.storage.objects import Objects, open_objects
from autotune.storage.s3 import S3Objects
from tests.aws import aws_environment, aws_server, make_bucket
from tests.conformance.records import a_study


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    with aws_server() as url:
        make_bucket(url, "kept")
        yield url


@pytest.fixture(params=["folder", "s3"])
def objects(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Objects:
    if request.param == "folder":
        return open_objects(f"file://{tmp_path}/made%20later")
    for name, value in aws_environment(request.getfixturevalue("aws")).items():
        monkeypatch.setenv(name, value)
    return open_objects(f"s3://kept/{request.node.name}/")


def test_an_object_is_what_was_put_last(objects: Objects) -> None:
    assert objects.get("a/b") is None
    objects.put("a/b", b"1")
    objects.put("a/b", b"\0\xff")
    assert objects.get("a/b") == b"\0\xff"


def test_what_is_too_large_is_not_read(objects: Objects) -> None:
    objects.put("a", b"12345")
    assert objects.get("a", most=5) == b"12345"
    with pytest.raises(UnreadableError, match="a: has 5 bytes, and may have 4"):
        objects.get("a", most=4)


def test_a_new_one_takes_no_other_ones_place(objects: Objects) -> None:
    assert objects.put_new("a/b", b"1")
    assert not objects.put_new("a/b", b"2")
    assert objects.get("a/b") == b"1"


def test_names_are_sorted_and_of_one_folder(objects: Objects) -> None:
    assert objects.names("a") == []
    for name in ("a/3", "a/1", "a/2", "ab/1", "a/c/1", "b"):
        objects.put(name, b"")
    assert objects.names("a") == ["1", "2", "3"]
    assert objects.names("a", after="1") == ["2", "3"]
    assert objects.within("a").names("c") == ["1"]


def test_many_names_come_in_one_list(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moto.settings.get_s3_default_max_keys", lambda: 2)
    for number in range(5):
        objects.put(f"many/{number}", b"")
    assert len(objects.names("many")) == 5


@pytest.mark.parametrize(
    "url",
    ["", "s3://", "s3://UPPER/x", "s3://b", "file://host/x", "file:x", "http://b/x", "s3://bu?a=b"],
)
def test_what_is_no_place_is_refused(url: str) -> None:
    with pytest.raises(FieldError, match=r"--mirror: .*s3://BUCKET/PREFIX"):
        open_objects(url)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cant_be_written_is_an_outage(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutageError, match="Permission denied"):
        open_objects(f"file://{tmp_path}").put("a", b"")


def test_a_file_in_the_folders_place_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(OutageError, match="is a file"):
        open_objects(f"file://{tmp_path}").put("a/b", b"")


def test_a_bucket_that_isnt_there_is_named(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in aws_environment(aws).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StorageError, match="s3://nobody/p/a: NoSuchBucket") as caught:
        open_objects("s3://nobody/p").put("a", b"")
    assert not isinstance(caught.value, OutageError)


def test_a_bucket_that_only_reads_is_found_out() -> None:
    client = boto3.client("s3", region_name="eu-west-1", aws_access_key_id="a",
                          aws_secret_access_key="b")  # fmt: skip
    with Stubber(client) as stubbed:
        stubbed.add_client_error("put_object", "AccessDenied", "Access Denied", 403)
        store = MirroredStore(MemoryStore(), S3Objects("kept", "p", client), print)
        with pytest.raises(FieldError, match=r"'s3://kept/p/r' can't be written: .*AccessDenied"):
            store.add_study(a_study())


def test_a_server_that_is_away_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in aws_environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(OutageError, match="s3://kept/p/a: Could not connect"):
        open_objects("s3://kept/p").put("a", b"")


def test_without_credentials_a_hint_says_what_to_do(
    aws: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in aws_environment(aws).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StorageError, match="no AWS credentials") as caught:
        open_objects("s3://kept/p").get("a")
    assert "AWS_PROFILE" in caught.value.hint

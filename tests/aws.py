"""A stand-in for AWS that answers over HTTP: moto's server, in a thread of this process.

with aws_server() as url:
    subprocess.run([...], env=os.environ | aws_environment(url))
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.moto_api._internal import moto_api_backend
from moto.server import ThreadedMotoServer

REGION = "eu-west-1"


@contextmanager
def aws_server(address: str = "127.0.0.1") -> Iterator[str]:
    """Its URL, on a free port; what it held is gone at the end."""
    server = ThreadedMotoServer(address, 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()
        moto_api_backend.reset()  # of this process, not of the server


def aws_environment(url: str) -> dict[str, str]:
    """Variables with which the AWS SDK asks the server at `url`, and nothing else."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def make_bucket(url: str, name: str) -> Any:
    """A client of the server's S3 that has just made the bucket."""
    client = boto3.client(
        "s3", endpoint_url=url, region_name=REGION,
        aws_access_key_id="test", aws_secret_access_key="test",
    )  # fmt: skip
    client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    return client

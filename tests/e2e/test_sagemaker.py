"""A study in a SageMaker job, from the command to the YAML file: AWS by moto, the job for real.

What moto does not do is done here: the bundle is taken from S3 and started as a container would.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from autotune.exporters.document import read
from tests.aws import aws_environment, aws_server, make_bucket
from tests.sagemaker_container import Container

ROLE = "arn:aws:iam::123456789012:role/autotune-sagemaker"
IMAGE = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-training:2.8.0-gpu-py312"
AWS = ["--role", ROLE, "--image", IMAGE, "--s3", "s3://bucket/tune"]
CPU = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Variables for a command that talks to moto, with a bucket there."""
    with aws_server() as url:
        make_bucket(url, "bucket")
        yield {**os.environ, **aws_environment(url), "AUTOTUNE_HOME": str(tmp_path / "home"), **CPU}


def autotune(
    words: Sequence[str], environment: dict[str, str], folder: Path
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "autotune", *words], env=environment, cwd=folder,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def received(environment: dict[str, str], prefix: str, folder: Path) -> Path:
    """The channel `code` as SageMaker copies it, its wheel unpacked, for this machine."""
    import boto3

    client = boto3.client(
        "s3", endpoint_url=environment["AWS_ENDPOINT_URL"], region_name="eu-west-1",
        aws_access_key_id="test", aws_secret_access_key="test",
    )  # fmt: skip
    for item in client.list_objects_v2(Bucket="bucket", Prefix=prefix)["Contents"]:
        path = folder / item["Key"].removeprefix(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(client.get_object(Bucket="bucket", Key=item["Key"])["Body"].read())
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder.parent / "site")
    # pip would put it into the environment of the tests.
    wheel.unlink()
    job = json.loads((folder / "job.json").read_text())
    # In the time that GPUs need, a noisy machine would go on confirming.
    for name, value in {"--instance": "local", "--budget": "12s"}.items():
        job["arguments"][job["arguments"].index(name) + 1] = value
    (folder / "job.json").write_text(json.dumps(job))
    return folder


@pytest.mark.timeout(900)
def test_a_study_runs_in_a_job_and_its_answer_comes_back(
    aws: dict[str, str], tmp_path: Path
) -> None:
    work = tmp_path / "here"
    work.mkdir()
    words = ["run", "--executor", "sagemaker", "--instance", "g5.12xlarge", *AWS, "--detach",
             "--nproc", "2", "--global-batch", "8", "--trials", "1", "--window", "0.02s",
             "--only", "bucket_cap_mb", "--max-cost", "500usd", "--budget", "90s",
             "--output", "found.yaml"]  # fmt: skip
    submitted = autotune(words, aws, work)
    assert submitted.returncode == 0, submitted.stderr
    run_id = submitted.stderr.rpartition("autotune resume ")[2].strip()

    listed = json.loads(autotune(["runs", "--format", "json"], aws, work).stdout)
    assert [(one["run"], one["status"]) for one in listed] == [(run_id, "submitted")]

    container = Container(root=tmp_path / "ml", hosts=["algo-1"], current="algo-1")
    container.receive(received(aws, f"tune/{run_id}/code/", tmp_path / "code"))
    variables = {name: aws[name] for name in aws if name.startswith("AWS_")}
    with container.started({**variables, **CPU, "PYTHONPATH": str(tmp_path / "site")}) as process:
        assert process.wait(500) == 0, container.log.read_text()

    resumed = autotune(["resume", run_id, "--format", "json"], aws, work)
    assert resumed.returncode == 0, resumed.stderr
    answer: dict[str, Any] = json.loads(resumed.stdout)
    assert answer["run"] == run_id
    assert answer["saved"] == "found.yaml"
    assert read(work / "found.yaml").run_id == run_id
    assert "machine: " in resumed.stderr
    assert re.search(r"^\[ +0\] baseline", resumed.stderr, re.MULTILINE)
    shown = json.loads(autotune(["runs", "--format", "json"], aws, work).stdout)
    assert [(one["run"], one["status"]) for one in shown] == [(run_id, "finished")]

"""The request of a job that tunes inside itself: exact, and held to SageMaker's own limits."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autotune.cli.main import app
from autotune.errors import FieldError, UserError
from autotune.sagemaker.account import Account
from autotune.sagemaker.cost import cost_of
from autotune.sagemaker.image import nearest
from autotune.sagemaker.limits import check_request, training_instances
from autotune.sagemaker.request import JobRequest
from autotune.space.instances import Price, load_instances

ROLE = "arn:aws:iam::123456789012:role/autotune-sagemaker"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8.0-gpu-py312"
PRICE = Price(usd_per_hour=20.0, as_of="2026-11-29", source="a list")
RUN = ["run", "--executor", "sagemaker", "--image", IMAGE, "--dry-run"]


def a_request(**changes: Any) -> JobRequest:
    values: dict[str, Any] = {
        "name": "autotune-r", "run_id": "r", "role": ROLE, "image": IMAGE,
        "instance": "p4d.24xlarge", "nodes": 2, "s3": "s3://bucket/autotune/r",
        "max_runtime_s": 3600,
        "environment": {"NCCL_DEBUG": "INFO"},
    }  # fmt: skip
    return JobRequest(**(values | changes))


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize("nodes", [1, 4])
@pytest.mark.parametrize("instance", ["p3.8xlarge", "p4d.24xlarge", "p5.48xlarge"])
def test_a_dry_run_prints_a_request_that_botocore_validates(
    instance: str, nodes: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--instance", instance, "--nodes", str(nodes), "--budget", "30m", "--spot"]
    done = CliRunner().invoke(app, [*RUN, *words])
    assert done.exit_code == 0, done.output
    request = json.loads(done.stdout)
    check_request(request)
    assert request["ResourceConfig"] == {
        "InstanceType": f"ml.{instance}", "InstanceCount": nodes, "VolumeSizeInGB": 50,
    }  # fmt: skip
    assert request["EnableManagedSpotTraining"] is True
    stopping = request["StoppingCondition"]
    assert stopping["MaxRuntimeInSeconds"] == 30 * 60 + 900
    assert stopping["MaxWaitTimeInSeconds"] >= stopping["MaxRuntimeInSeconds"]


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--instance", "p4d.24xlarge", "--set", "strategie=ddp"], "did you mean 'strategy'"),
        (["--instance", "p4d.24xlarge", "--set", "strategy=ddpp"], "did you mean 'ddp'"),
        (["--instance", "p4d.24xlarge", "--budget", "5s"], "is too short"),
        (["--instance", "p4d.24xlarge", "--nproc", "9"], "has to be from 1 to 8"),
        (["--instance", "p4d.48xlarge"], "did you mean"),
        (["--instance", "local"], "is not in the catalogue"),
        (["--instance", "g4dn.metal"], "no type that SageMaker trains on"),
        (["--workload", "tiny"], "--instance has to be given"),
        (["--instance", "p4d.24xlarge", "--max-cost", "1usd"], "pays for"),
        (["--instance", "p4d.24xlarge", "--max-cost", "1"], "such as 200usd"),
        (["--instance", "p4d.24xlarge", "--spot", "--keep-alive", "5m"], "go with --spot"),
        (["--instance", "p4d.24xlarge", "--keep-alive", "9h"], "more than SageMaker's 21600"),
        (["--instance", "p4d.24xlarge", "--share-machine"], "doesn't go with"),
        (["--instance", "p4d.24xlarge", "--nodes", "2", "--live"], "--nodes above 1"),
        (["--instance", "p4d.24xlarge", "--s3", "bucket/x"], "has to be s3://BUCKET/PREFIX"),
        (["--instance", "p4d.24xlarge", "--s3", "s3://Bucket/x"], "small letters"),
        (["--instance", "p4d.24xlarge", "--role", "autotune"], "RoleArn"),
        (["--instance", "p4d.24xlarge", "--", __file__], "has to be relative to this folder"),
    ],
)
def test_what_a_job_would_refuse_is_refused_before_it_is_sent(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*RUN, *words])
    assert isinstance(done.exception, UserError), done.output
    assert message in str(done.exception)


@pytest.mark.usefixtures("no_credentials")
def test_what_is_too_large_to_send_is_refused_before_a_request_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("autotune.sagemaker.work_files.MOST_FILES", 1)
    for name in ("train.py", "data.bin"):
        (tmp_path / name).touch()
    words = ["--instance", "p4d.24xlarge", "--image", IMAGE, "--dry-run", "--", "train.py"]
    done = CliRunner().invoke(app, [*RUN, *words])
    assert "holds more than 1 files" in str(done.exception)


@pytest.mark.usefixtures("no_credentials")
def test_the_region_is_the_one_that_aws_own_command_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    assert Account().region == "eu-north-1"
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    assert Account().region == "eu-west-3"
    assert Account("us-east-2").region == "us-east-2"


def test_options_of_the_job_need_its_executor() -> None:
    done = CliRunner().invoke(app, ["run", "--instance", "local", "--spot"])
    assert "--spot: needs --executor sagemaker" in str(done.exception)


@pytest.mark.parametrize(
    ("executor", "hint"),
    [("local", "--instance local"), ("ray", "--instance local"), ("sagemaker", "machine type")],
)
def test_an_instance_that_is_left_out_is_asked_for_by_where_trials_run(
    executor: str, hint: str
) -> None:
    done = CliRunner().invoke(app, ["run", "--executor", executor])
    assert isinstance(done.exception, UserError)
    assert str(done.exception) == "--instance has to be given"
    assert hint in done.exception.hint


@pytest.mark.parametrize(
    ("changes", "path", "rule"),
    [
        ({"environment": {f"V{n}": "" for n in range(101)}}, "Environment", "100 entries"),
        ({"environment": {"V": "x" * 513}}, "Environment.V", "512 characters"),
        ({"environment": {"1V": "x"}}, "Environment.1V", "has to match"),
        ({"name": "autotune_r"}, "TrainingJobName", "has to match"),
        ({"name": "a" * 64}, "TrainingJobName", "63 characters"),
        ({"instance": "p4d.25xlarge"}, "ResourceConfig.InstanceType", "is not known"),
        ({"keep_alive_s": 21601}, "ResourceConfig.KeepAlivePeriodInSeconds", "21600"),
        ({"role": "role"}, "RoleArn", "20 characters"),
        ({"run_id": "r;"}, "Tags[0].Value", "has to match"),
        ({"max_runtime_s": 0}, "StoppingCondition.MaxRuntimeInSeconds", "less than"),
    ],
)
def test_limits_are_the_service_models_own(changes: dict[str, Any], path: str, rule: str) -> None:
    check_request(a_request().document())
    with pytest.raises(FieldError, match=re.escape(rule)) as raised:
        check_request(a_request(**changes).document())
    assert raised.value.field == path


def test_what_botocore_refuses_is_refused() -> None:
    document = a_request().document()
    del document["RoleArn"]
    with pytest.raises(UserError, match='Missing required parameter in input: "RoleArn"'):
        check_request(document)


def test_money_ends_a_job_before_time_does() -> None:
    free = cost_of(budget_s=3600, nodes=2, price=PRICE, max_usd=None, is_spot=False)
    assert (free.max_runtime_s, free.usd_per_hour) == (4500, 40.0)
    assert "about 40.00 USD for the study's 1.0 h" in free.describe()
    bound = cost_of(budget_s=3600, nodes=2, price=PRICE, max_usd=48.0, is_spot=False)
    assert bound.max_runtime_s == 4320
    with pytest.raises(FieldError, match=r"pays for 50 min of 2 x 20\.00 USD an hour"):
        cost_of(budget_s=3600, nodes=2, price=PRICE, max_usd=45.0, is_spot=False, spent_usd=11.6)
    with pytest.raises(FieldError, match="needs a price"):
        cost_of(budget_s=3600, nodes=2, price=None, max_usd=45.0, is_spot=False)


def test_the_container_is_the_newest_that_is_not_newer_than_what_is_here() -> None:
    known = ["1.13.1", "2.2.0", "2.6.0", "2.9.0", "2.10.0"]
    assert nearest("2.13.0+cpu", known) == "2.10.0"
    assert nearest("2.9.1", known) == "2.9.0"
    with pytest.raises(ValueError, match=r"none has PyTorch from 2\.6"):
        nearest("2.5.0", known)


def test_most_instances_of_the_catalogue_can_train() -> None:
    assert set(load_instances()) - set(training_instances()) == {"g4dn.metal"}


def test_the_sdk_names_aws_own_container() -> None:
    pytest.importorskip("sagemaker.core", reason="SageMaker's SDK is in an extra of its own")
    from autotune.sagemaker.image import default_image

    uri, notice = default_image("eu-west-1", "p5.48xlarge", "2.8.0")
    assert uri.endswith(".dkr.ecr.eu-west-1.amazonaws.com/pytorch-training:2.8.0-gpu-py312")
    assert notice == ""
    _, notice = default_image("us-east-1", "p4d.24xlarge", "2.99.0")
    assert "the newest that AWS has up to 2.99.0" in notice


def test_without_the_sdk_a_container_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from autotune.sagemaker import image

    monkeypatch.setattr(image, "find_spec", lambda name: None)
    with pytest.raises(FieldError, match="--image: has to be given") as raised:
        image.default_image("us-east-1", "p4d.24xlarge", "2.8.0")
    assert "autotune-train[sagemaker]" in raised.value.hint

"""Jobs seen from outside, against moto's AWS over HTTP: submit, follow, stop, resume, doctor.

moto completes a job as soon as it is submitted, so tests say themselves where it stands.
"""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.sagemaker.models import sagemaker_backends
from typer.testing import CliRunner, Result

from autotune.cli import following
from autotune.cli.main import app
from autotune.compose import build_spec
from autotune.errors import CloudError, FieldError, UserError
from autotune.machines import catalogued_place
from autotune.model import Conclusion, Phase, StudyStatus
from autotune.request import Request, build_space, build_target
from autotune.sagemaker import checks, jobs, submission
from autotune.sagemaker import following as polling
from autotune.storage import MemoryStore, default_url, open_store
from autotune.storage.changes import Status, read_changes
from autotune.storage.mirror import put_next, send_missing
from autotune.storage.objects import open_objects
from autotune.storage.replay import fold
from tests.aws import REGION, aws_environment, aws_server, make_bucket
from tests.conformance.records import a_best, a_study, a_trial

ROLE = f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/autotune-sagemaker"
IMAGE = f"{DEFAULT_ACCOUNT_ID}.dkr.ecr.{REGION}.amazonaws.com/autotune:1"
BUCKET = f"sagemaker-{REGION}-{DEFAULT_ACCOUNT_ID}"
RUN = ["run", "--executor", "sagemaker", "--instance", "p4d.24xlarge", "--image", IMAGE]
TRUST = Path(__file__).parents[2] / "docs" / "sagemaker" / "trust-policy.json"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with aws_server() as url:
        make_bucket(url, BUCKET)
        yield url


@pytest.fixture
def aws(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """An account with the bucket, in the environment of this process."""
    for name, value in aws_environment(server).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(polling, "POLL_S", 0.02)
    return boto3.client


def call(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=stdin)


def submitted() -> str:
    """The run id of a job that was just submitted."""
    done = call(*RUN, "--detach", "--workload", "tiny", "--global-batch", "64")
    assert done.exit_code == 0, (done.output, done.exception)
    match = re.search(r"run (\S+):", done.stderr)
    assert match
    return match[1]


def set_status(name: str, status: str, phase: str = "", reason: str = "", used_s: int = 0) -> None:
    """Where the job stands, as SageMaker would say it."""
    job = sagemaker_backends[DEFAULT_ACCOUNT_ID][REGION].training_jobs[name]
    job.training_job_status, job.secondary_status = status, phase or status
    job.secondary_status_transitions = [
        {"Status": phase or status, "StatusMessage": "", "StartTime": "2026-11-30T00:00:00"}
    ]
    job.failure_reason, job.billable_time_in_seconds = reason, used_s


def names() -> list[str]:
    return list(sagemaker_backends[DEFAULT_ACCOUNT_ID][REGION].training_jobs)


def write_records(run_id: str, trials: int, *, is_finished: bool) -> None:
    """What the program inside would have sent to S3 by now."""
    inside, place = MemoryStore(), catalogued_place("p4d.24xlarge")
    request = Request(instance="p4d.24xlarge", global_batch=64, environment={})
    target = build_target(request, place.machine)
    space = build_space(request, place, target)
    spec = build_spec(request, target, space, place)
    inside.add_study(a_study(run_id, spec=spec, machine=place.machine))
    baseline = space.baseline()
    for number in range(trials):
        inside.add_trial(
            a_trial(
                number, run_id, phase=Phase.BASELINE, candidate=baseline,
                settings=space.settings(baseline), environment=space.environment(baseline),
            )
        )  # fmt: skip
    if is_finished:
        inside.save_best(a_best(run_id=run_id, target=target))
    objects = open_objects(f"s3://{BUCKET}/autotune/{run_id}")
    send_missing(inside, objects, run_id)
    if is_finished:
        inside.update_study(run_id, status=StudyStatus.FINISHED, conclusion=Conclusion.IMPROVED)
        send_missing(inside, objects, run_id)


def test_a_submitted_job_is_whole_in_s3_and_in_the_store(aws: Callable[[str], Any]) -> None:
    run_id = submitted()
    found = aws("s3").list_objects_v2(Bucket=BUCKET, Prefix=f"autotune/{run_id}/")["Contents"]
    kept = {item["Key"].rpartition("/code/")[2] for item in found}
    assert {"job.json", "start.py", "requirements.txt"} < kept
    job = aws("sagemaker").describe_training_job(TrainingJobName=f"autotune-{run_id}")
    assert job["RoleArn"] == ROLE
    assert job["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"] == (
        f"s3://{BUCKET}/autotune/{run_id}/code/"
    )
    with open_store(default_url()) as store:
        (recorded,) = store.jobs()
    assert (recorded.run_id, recorded.name) == (run_id, f"autotune-{run_id}")
    assert "submitted" in call("runs").output


def test_records_become_the_stores_and_the_answer_a_file(aws: Callable[[str], Any]) -> None:
    run_id = submitted()
    write_records(run_id, 3, is_finished=True)
    done = call("resume", run_id)
    assert done.exit_code == 0, (done.output, done.exception)
    assert len(re.findall(r"^\[ +\d\] ", done.stderr, re.MULTILINE)) == 3
    with open_store(default_url()) as store:
        assert len(store.trials(run_id)) == 3
    saved = list(Path("best").glob("*.yaml"))
    assert [run_id in path.read_text() for path in saved] == [True]
    again = call("resume", run_id)
    assert "3 trials of before kept" in again.stderr
    assert names().count(f"autotune-{run_id}-2") == 0


def test_a_failed_job_says_why_and_what_to_do(aws: Callable[[str], Any]) -> None:
    run_id = submitted()
    name = f"autotune-{run_id}"
    set_status(name, "InProgress", "Starting")

    def fail(*_: object) -> None:
        set_status(name, "Failed", reason="CapacityError: Unable to provision requested ML compute")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polling.Follower, "catch_up", fail)
        failed = call("resume", run_id)
    assert isinstance(failed.exception, CloudError)
    assert "CapacityError: Unable to provision" in str(failed.exception)
    assert "reserve them with a training plan" in failed.exception.hint
    assert f"autotune resume {run_id}" in failed.exception.hint


def test_an_interrupted_run_goes_on_in_another_job_with_what_is_kept(
    aws: Callable[[str], Any],
) -> None:
    run_id = submitted()
    write_records(run_id, 2, is_finished=False)
    set_status(f"autotune-{run_id}", "Stopped")
    before = aws("s3").get_object(Bucket=BUCKET, Key=f"autotune/{run_id}/code/job.json")["Body"]
    done = call("resume", run_id)
    assert f"goes on in job autotune-{run_id}-2" in done.stderr
    assert "2 trials are kept" in done.stderr, "moto's job ends without doing anything"
    assert done.exit_code == 130
    after = aws("s3").get_object(Bucket=BUCKET, Key=f"autotune/{run_id}/code/job.json")["Body"]
    old, new = json.loads(before.read()), json.loads(after.read())
    assert old.pop("token") != new.pop("token")
    assert old == new
    with open_store(default_url()) as store:
        assert [job.name for job in store.jobs()][-1] == f"autotune-{run_id}-2"
        assert len(store.trials(run_id)) == 2


def test_a_run_whose_job_was_refused_is_submitted_again(
    aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(account: Any, request: Any) -> None:
        raise CloudError("the account's quota doesn't allow this many instances")

    with monkeypatch.context() as patch:
        patch.setattr(submission, "submit", refuse)
        refused = call(*RUN, "--detach")
    assert isinstance(refused.exception, CloudError)
    run_id = re.search(r"run (\S+):", refused.stderr)[1]  # type: ignore[index]
    assert f"autotune-{run_id}" not in names()
    assert call("resume", run_id, "--detach").exit_code == 0
    assert f"autotune-{run_id}-2" in names()


def test_what_a_job_left_open_is_saved_and_can_go_on(
    aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = submitted()
    set_status(f"autotune-{run_id}", "InProgress", "Training")
    write_records(run_id, 3, is_finished=False)
    objects = open_objects(f"s3://{BUCKET}/autotune/{run_id}")
    known = fold(read_changes(objects, run_id))
    assert known.study
    best = a_best(Conclusion.UNCONFIRMED, run_id=run_id, target=known.study.spec.target)
    status = Status(run_id=run_id, status=StudyStatus.INTERRUPTED,
                    conclusion=Conclusion.UNCONFIRMED, reason="time is up")  # fmt: skip
    put_next(objects, put_next(objects, known, best), status)
    monkeypatch.setattr(polling, "POLL_S", 0.0)
    real = polling.Follower.catch_up

    def last(self: polling.Follower) -> None:
        real(self)
        set_status(self.job.name, "Completed")

    monkeypatch.setattr(polling.Follower, "catch_up", last)
    done = call("resume", run_id)
    assert done.exit_code == 130, done.exception
    assert "has ended (Completed) before the study had: 3 trials are kept" in done.stderr
    (saved,) = Path("best").glob("*.yaml")
    assert "unconfirmed" in saved.read_text()


def test_money_that_is_spent_ends_a_run(aws: Callable[[str], Any]) -> None:
    done = call(*RUN, "--detach", "--budget", "10m", "--max-cost", "12usd")
    run_id = re.search(r"run (\S+):", done.stderr)[1]  # type: ignore[index]
    set_status(f"autotune-{run_id}", "Stopped", "MaxRuntimeExceeded", used_s=1900)
    spent = call("resume", run_id)
    assert isinstance(spent.exception, FieldError)
    assert "have cost about 11.59 USD" in str(spent.exception)
    more = call("resume", run_id, "--max-cost", "20usd", "--detach")
    assert more.exit_code == 0, more.exception
    second = aws("sagemaker").describe_training_job(TrainingJobName=f"autotune-{run_id}-2")
    assert second["StoppingCondition"]["MaxRuntimeInSeconds"] in (1378, 1379)


@pytest.mark.parametrize(("choice", "status"), [("d", "InProgress"), ("s", "Stopped")])
def test_ctrl_c_asks_whether_to_detach_or_stop(
    choice: str, status: str, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = submitted()
    name = f"autotune-{run_id}"
    set_status(name, "InProgress", "Training")
    looks: list[int] = []

    def interrupt(self: polling.Follower) -> None:
        looks.append(1)
        if len(looks) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(polling.Follower, "catch_up", interrupt)
    monkeypatch.setattr(following, "_choice", lambda: choice)
    # moto has no StopTrainingJob.
    monkeypatch.setattr(jobs, "stop", lambda account, name: set_status(name, "Stopped"))
    done = call("resume", run_id)
    assert done.exit_code == 130, done.exception
    now = aws("sagemaker").describe_training_job(TrainingJobName=name)["TrainingJobStatus"]
    assert now == status
    assert f"autotune resume {run_id}" in done.stderr


def test_without_a_terminal_an_interruption_detaches() -> None:
    assert following._choice() == "d"


def test_outages_are_waited_for(aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = submitted()
    write_records(run_id, 1, is_finished=True)
    real, calls = polling.describe, []

    def away(account: Any, name: str) -> Any:
        calls.append(name)
        if len(calls) < 3:
            from autotune.sagemaker.aws_errors import explained

            raise explained("looking at the job", "EndpointConnectionError", "Could not connect")
        return real(account, name)

    monkeypatch.setattr(polling, "describe", away)
    done = call("resume", run_id)
    assert done.exit_code == 0, done.exception
    assert done.stderr.count("AWS can't be reached (") == 1
    assert "AWS can be reached again" in done.stderr


def test_a_bucket_that_is_not_there_is_told_before_anything_is_sent(
    aws: Callable[[str], Any],
) -> None:
    before = names()
    done = call(*RUN, "--s3", "s3://no-such-bucket-here/x")
    assert isinstance(done.exception, UserError)
    assert "there is no such bucket" in str(done.exception)
    assert names() == before


def doctor(*words: str) -> dict[str, tuple[bool, str]]:
    done = call(
        "doctor", "--instance", "p4d.24xlarge", "--image", IMAGE, "--format", "json", *words
    )
    found = json.loads(done.stdout)
    assert done.exit_code == (0 if all(one["is_ok"] for one in found) else 1)
    return {one["name"]: (one["is_ok"], one["found"] + one["hint"]) for one in found}


def test_the_doctor_names_all_that_is_missing(aws: Callable[[str], Any]) -> None:
    found = doctor("--s3", "s3://nowhere-at-all/x")
    assert {name for name, (is_ok, _) in found.items() if is_ok} == {
        "credentials", "instance", "price",
    }  # fmt: skip
    assert "there is no such role" in found["role"][1]
    assert "there is no such bucket" in found["bucket"][1]
    assert "servicequotas:ListServiceQuotas" in found["quota"][1]
    assert "aws iam create-role --role-name autotune-sagemaker " in found["role"][1]
    assert "aws s3 mb s3://nowhere-at-all," in found["bucket"][1]
    assert "docs/sagemaker.md, step 4" in found["quota"][1]
    assert "docs/sagemaker.md, Bring your own image" in found["image"][1]


def test_the_doctor_holds_quotas_against_what_is_asked(
    aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    quotas = {
        "ml.p4d.24xlarge for training job usage": 2.0,
        "ml.p4d.24xlarge for spot training job usage": 0.0,
        "ml.p4d.24xlarge for training warm pool usage": 1.0,
    }
    monkeypatch.setattr(checks, "_quotas", lambda account: quotas)
    assert doctor("--nodes", "2")["quota"][0]
    assert not doctor("--nodes", "3")["quota"][0]
    assert "usage: 0, and 1 are needed" in doctor("--spot")["quota"][1]
    assert not doctor("--nodes", "2", "--keep-alive", "5m")["quota"][0]


def test_the_doctor_finds_a_role_that_sagemaker_may_not_take_on(aws: Callable[[str], Any]) -> None:
    iam = aws("iam")
    other = TRUST.read_text().replace("sagemaker.amazonaws.com", "ec2.amazonaws.com")
    iam.create_role(RoleName="autotune-sagemaker", AssumeRolePolicyDocument=other)
    try:
        assert "its trust policy doesn't name sagemaker.amazonaws.com" in doctor()["role"][1]
        iam.update_assume_role_policy(
            RoleName="autotune-sagemaker", PolicyDocument=TRUST.read_text()
        )
        found = doctor()
        assert found["role"] == (True, f"{ROLE}, SageMaker may take it on")
        assert found["bucket"][0]
    finally:
        iam.delete_role(RoleName="autotune-sagemaker")

"""The contract of a training job's container, kept for real: the bundle laid out under an /opt/ml,
started as SageMaker starts it, one process tree for each host, with S3 over HTTP.
"""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from autotune.exporters.document import read
from autotune.model import StudyStatus, Trial
from autotune.storage import MemoryStore
from autotune.storage.changes import read_changes
from autotune.storage.replay import apply_changes
from autotune.storage.s3 import S3Objects
from tests import netns
from tests.aws import aws_environment, aws_server, make_bucket
from tests.ray_hosts import ROOT
from tests.sagemaker_container import Container, vanish, write_bundle

pytestmark = pytest.mark.timeout(900)
RUN = "20261130-060000-abcd"
PLACE = f"autotune/{RUN}"
JOB = {"format": 1, "run_id": RUN, "s3": f"s3://bucket/{PLACE}"}
SIMULATED = ["--executor", "simulated", "--landscape", "rugged", "--trials", "30"]
REAL = ["--instance", "local", "--workload", "tiny", "--nproc", "1", "--global-batch", "8",
        "--window", "0.05s", "--only", "accumulation_steps", "--trials", "1",
        "--budget", "40s"]  # fmt: skip
SCRIPT = [*REAL, "--", "train.py", "--micro-batch", "{micro_batch}",
          "--accumulate", "{accumulation_steps}"]  # fmt: skip
WORK = {"train.py": (ROOT / "tests/scripts/train.py").read_text()}
"""What the user's folder holds."""
PATIENCE_S = 400.0


class Records:
    """What a run's jobs have left in S3; the client's view of it."""

    def __init__(self, client: Any) -> None:
        self.objects = S3Objects("bucket", PLACE, client)

    def trials(self) -> Sequence[Trial]:
        return [c.record for c in read_changes(self.objects, RUN) if isinstance(c.record, Trial)]

    def store(self) -> MemoryStore:
        store = MemoryStore()
        apply_changes(store, read_changes(self.objects, RUN))
        return store

    def text(self, name: str) -> str:
        return (self.objects.get(name) or b"").decode()


def eventually(holds: Callable[[], bool], containers: Sequence[Container]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        said = "\n".join(container.log.read_text()[-4000:] for container in containers)
        assert time.monotonic() < deadline, said
        assert not any(container.failure for container in containers), said
        time.sleep(0.05)


def ends(process: "subprocess.Popen[str]", container: Container) -> int:
    try:
        return process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise AssertionError(container.log.read_text()) from None


@pytest.fixture
def aws() -> Iterator[tuple[str, Records]]:
    with aws_server() as url:
        yield url, Records(make_bucket(url, "bucket"))


class NewContainer(Protocol):
    def __call__(self, name: str, arguments: Sequence[str], **job: float) -> Container: ...


@pytest.fixture
def container(tmp_path: Path) -> NewContainer:
    """Makes a fresh container that has received the run's job with these arguments."""

    def make(name: str, arguments: Sequence[str], **job: float) -> Container:
        given = JOB | {"arguments": list(arguments)} | job
        bundle = write_bundle(tmp_path / name / "bundle", given)
        made = Container(root=tmp_path / name / "ml", hosts=["algo-1"], current="algo-1")
        made.receive(bundle)
        return made

    return make


def test_a_job_goes_on_where_a_killed_one_was(
    aws: tuple[str, Records], container: NewContainer
) -> None:
    url, records = aws
    first, second = container("1", SIMULATED), container("2", SIMULATED)
    with first.started(aws_environment(url)) as process:
        eventually(lambda: len(records.objects.names("records")) >= 8, [first])
        vanish(process)
    kept = records.objects.names("records")
    contents = [records.objects.get(f"records/{name}") for name in kept]
    before = len(records.trials())
    with second.started(aws_environment(url)) as process:
        assert ends(process, second) == 0, second.log.read_text()
    assert [records.objects.get(f"records/{name}") for name in kept] == contents
    trials = records.trials()
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert len(trials) > before, "the first job was to be killed in the middle"
    assert f"{before} trials of before kept" in second.log.read_text()
    study = records.store().study(RUN)
    assert study is not None
    assert study.status is StudyStatus.FINISHED
    assert "<html" in records.text("result/report.html")


def test_a_stopped_job_ends_cleanly_and_says_so(
    aws: tuple[str, Records], container: NewContainer
) -> None:
    url, records = aws
    job = container("1", [*SIMULATED[:-1], "100000", "--budget", "9000h"])
    with job.started(aws_environment(url)) as process:
        eventually(lambda: len(records.objects.names("records")) >= 5, [job])
        process.send_signal(signal.SIGTERM)
        assert ends(process, job) == 130, job.log.read_text()
    assert "interrupted; resume with: autotune resume" in job.failure
    assert records.text("result/failure.txt") == job.failure
    study = records.store().study(RUN)
    assert study is not None
    assert study.status is StudyStatus.INTERRUPTED


@pytest.mark.long
def test_a_job_whose_money_is_nearly_spent_ends_by_itself(
    aws: tuple[str, Records], container: NewContainer
) -> None:
    url, records = aws
    money = {"time_limit_s": 3600, "cost_limit_usd": 10, "usd_per_hour": 40, "spent_usd": 4.6}
    first, second = container("1", SIMULATED, **money), container("2", SIMULATED)
    with first.started(aws_environment(url)) as process:
        assert ends(process, first) == 0, first.log.read_text()
    assert "the time limit has come; resume with: autotune resume" in first.log.read_text()
    assert first.failure == records.text("result/failure.txt") == ""
    study = records.store().study(RUN)
    assert study is not None
    assert study.status is StudyStatus.INTERRUPTED
    with second.started(aws_environment(url)) as process:
        assert ends(process, second) == 0, second.log.read_text()
    study = records.store().study(RUN)
    assert study is not None
    assert study.status is StudyStatus.FINISHED


@pytest.mark.long
def test_what_cant_be_tuned_is_told_as_the_jobs_failure(
    aws: tuple[str, Records], container: NewContainer
) -> None:
    url, records = aws
    job = container("1", ["--instance", "p4d.24xlarge", "--set", "reshard=maybe"])
    with job.started(aws_environment(url)) as process:
        assert ends(process, job) == 2
    assert job.failure.startswith("error: ")
    assert records.text("result/failure.txt") == job.failure
    assert records.objects.names("records") == []


def check_answer(job: Container, records: Records) -> None:
    """The same in the container, in S3, and in what a client's store has of it."""
    path = job.root / "model" / "best.yaml"
    assert records.text("result/best.yaml") == path.read_text()
    (kept,) = records.store().bests()
    assert read(path).settings == kept.settings
    assert kept.run_id == RUN


HOSTS = ("algo-1", "algo-2")


@contextmanager
def job_on(
    hosts: Sequence[netns.Host], folder: Path, variables: dict[str, str], arguments: Sequence[str]
) -> Iterator[list[tuple[Container, "subprocess.Popen[str]"]]]:
    """A job with a container on each host."""
    job = JOB | {"arguments": list(arguments), "nodes": 2, "token": "ab" * 32}
    bundle = write_bundle(folder / "bundle", job, WORK)
    with ExitStack() as stack:
        made = []
        for name, host in zip(HOSTS, hosts, strict=True):
            container = Container(
                root=folder / name / "ml", hosts=HOSTS, current=name, host=host,
                interface=netns.LINK,
            )  # fmt: skip
            container.receive(bundle)
            made.append((container, stack.enter_context(container.started(variables))))
        yield made


def count(cloud: netns.Host, records: Records) -> int:
    """How many changes there are; asked from where S3 is."""
    with netns.entered(cloud):
        return len(records.objects.names("records"))


@pytest.mark.netns
@pytest.mark.parametrize(
    ("arguments", "interrupted"),
    [
        pytest.param(REAL, False, id="built-in"),
        pytest.param(REAL, True, id="interrupted", marks=pytest.mark.long),
        pytest.param(SCRIPT, False, id="script", marks=pytest.mark.long),
    ],
)
def test_two_hosts_tune_together(
    tmp_path: Path, arguments: Sequence[str], interrupted: bool
) -> None:
    pytest.importorskip("ray", reason="Ray (the extra `ray`) is not installed")
    if reason := netns.why_not():
        pytest.skip(reason)
    with ExitStack() as stack:
        *hosts, cloud = stack.enter_context(netns.hosts(3, rate="1gbit"))
        stack.enter_context(netns.named(dict(zip(HOSTS, hosts, strict=True))))
        with netns.entered(cloud):
            url = stack.enter_context(aws_server(cloud.address))
            records = Records(make_bucket(url, "bucket"))
        if interrupted:
            with job_on(hosts, tmp_path / "1", aws_environment(url), arguments) as made:
                eventually(lambda: count(cloud, records) >= 2, [one for one, _ in made])
                # A spot instance's notice, and its end.
                for _, process in made:
                    process.send_signal(signal.SIGTERM)
                time.sleep(0.5)
                for _, process in made:
                    vanish(process)
        kept = count(cloud, records)
        with job_on(hosts, tmp_path / "2", aws_environment(url), arguments) as made:
            codes = [ends(process, container) for container, process in made]
        said = [container.log.read_text() for container, _ in made]
        assert codes == [0, 0], "\n".join(said)
        with netns.entered(cloud):
            trials = records.trials()
            check_answer(made[0][0], records)
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert len(trials) >= kept - 1
    assert ("of before kept" in said[0]) == interrupted
    assert "algo-2: works for algo-1" in said[1]

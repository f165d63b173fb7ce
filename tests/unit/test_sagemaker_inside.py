"""What a training job's hosts make of what SageMaker and the client tell them."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import ExecutorError, FieldError, UserError
from autotune.executors.family import living_processes
from autotune.sagemaker.inside import start, study
from autotune.sagemaker.inside.__main__ import main
from autotune.sagemaker.inside.child import Child
from autotune.sagemaker.inside.hosts import Hosts, read_hosts
from autotune.sagemaker.inside.job import Job, read_job
from autotune.sagemaker.inside.layout import ROOT, Layout
from autotune.sagemaker.inside.meeting import Meeting, joined
from autotune.sagemaker.inside.study import Ending

FILE = "/opt/ml/input/config/resourceconfig.json"
CONFIG = {
    "current_host": "algo-2",
    "hosts": ["algo-1", "algo-2"],
    "network_interface_name": "eth0",
    "current_instance_type": "ml.p4d.24xlarge",
}
JOB = {
    "format": 1,
    "run_id": "20261130-060000-abcd",
    "arguments": ["--instance", "p4d.24xlarge"],
    "s3": "s3://bucket/autotune/20261130-060000-abcd",
}
TOKEN = "0123456789abcdef" * 4


def test_hosts_are_those_of_the_file() -> None:
    hosts = read_hosts(json.dumps(CONFIG), {}, FILE)
    assert hosts == Hosts(names=("algo-1", "algo-2"), current="algo-2", interface="eth0")
    assert (hosts.head, hosts.is_head) == ("algo-1", False)


def test_without_the_file_they_are_those_of_the_variables() -> None:
    environ = {"SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-1"}
    assert read_hosts(None, environ, FILE).is_head
    with pytest.raises(UserError, match=r"resourceconfig\.json is not there, and SM_HOSTS"):
        read_hosts(None, {}, FILE)
    with pytest.raises(FieldError, match="SM_HOSTS: 'algo-1' is not JSON"):
        read_hosts(None, {"SM_HOSTS": "algo-1"}, FILE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hosts": []}, r"\.hosts: \[\] names no host"),
        ({"hosts": "algo-1"}, r"\.hosts: 'algo-1' has to be a list"),
        ({"hosts": ["algo-2", 7]}, r"\.hosts\[1\]: 7 has to be text"),
        ({"hosts": ["algo-2", "algo-2"]}, r"\.hosts: .* names a host twice"),
        ({"current_host": "algo-3"}, r"\.current_host: 'algo-3' is not among the hosts"),
        ({"current_host": None}, r"\.current_host: None has to be text"),
    ],
)
def test_a_wrong_file_is_named_with_its_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError, match=rf"resourceconfig\.json{message}"):
        read_hosts(json.dumps(CONFIG | change), {}, FILE)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]"])
def test_a_file_that_is_no_mapping_is_named(text: str) -> None:
    with pytest.raises(FieldError, match=r"resourceconfig\.json"):
        read_hosts(text, {}, FILE)


def test_the_network_is_told_to_gloo_and_nccl_unless_the_user_has() -> None:
    hosts = read_hosts(json.dumps(CONFIG), {}, FILE)
    both = {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "eth0"}
    assert hosts.variables({}) == both
    assert hosts.variables({"NCCL_SOCKET_IFNAME": "ens5"}) == {"GLOO_SOCKET_IFNAME": "eth0"}
    assert Hosts(names=("algo-1",), current="algo-1", interface="eth0").variables({}) == {}


def write_job(folder: Path, **changes: Any) -> Path:
    path = folder / "job.json"
    path.write_text(json.dumps(JOB | changes))
    return path


def test_a_job_may_have_no_arguments(tmp_path: Path) -> None:
    assert read_job(write_job(tmp_path, arguments=[])).options == ()


def test_a_job_is_what_its_file_says(tmp_path: Path) -> None:
    job = read_job(write_job(tmp_path, arguments=["--trials", "3", "--", "train.py", "--nodes"]))
    assert job.options == ("--trials", "3")
    assert job.mirror == "s3://bucket/autotune"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format: 2 has to be 1"),
        ({"run_id": "../x"}, "RUN: '../x' is not a run id"),
        ({"s3": "s3://bucket/other"}, "has to end with the run id"),
        ({"nodes": 0}, "nodes: 0 has to be at least 1"),
        ({"nodes": 2, "token": "short"}, "token: '…' has to have 32 characters"),
        ({"arguments": ["--mirror=x"]}, "arguments: '--mirror=x' is set by the job itself"),
        ({"arguments": ["--executor", "ray"]}, "arguments: '--executor' is set by the job"),
        ({"s4": ""}, "s4: .* is unknown"),
    ],
)
def test_a_wrong_job_is_named_with_its_field(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_job(write_job(tmp_path, **changes))
    assert "short" not in str(caught.value)


def a_job(**changes: Any) -> Job:
    return Job(**(JOB | {"arguments": tuple(JOB["arguments"])} | changes))  # type: ignore[arg-type]


def test_the_controller_begins_or_goes_on() -> None:
    first = study.command(a_job(arguments=("--cold", "--", "train.py")), goes_on=False)
    assert first[3] == "run"
    assert first[-5:] == ["--run-id", JOB["run_id"], "--cold", "--", "train.py"]
    again = study.command(a_job(arguments=("--cold", "--trials", "3")), goes_on=True)
    assert again[3:5] == ["resume", JOB["run_id"]]
    assert again[-1] == "--cold"
    assert "--trials" not in again


def test_on_several_hosts_the_controller_has_their_cluster() -> None:
    job = a_job(nodes=2, token=TOKEN)
    first = " ".join(study.command(job, goes_on=False, address="10.0.0.1:6379"))
    assert "--executor ray --address 10.0.0.1:6379 --nodes 2" in first
    again = " ".join(study.command(job, goes_on=True, address="10.0.0.1:6379"))
    assert "--nodes" not in again
    assert TOKEN not in first + again


def test_a_failure_is_told_by_its_last_error() -> None:
    said = ["run x", "error: first", "", "more", "error: --budget: '1s' is too short", "hint: more"]
    assert Ending(code=2, said=said).failure == "error: --budget: '1s' is too short\nhint: more"
    assert Ending(code=0, said=said).failure == ""
    assert Ending(code=9).failure == "the study ended with exit code 9"


def test_a_failure_begins_with_its_reason() -> None:
    figures = "autotune.samples_per_s=1.000; autotune.best_samples_per_s=1.000;"
    said = [f"[ {n}] a trial" for n in range(9)] + ["interrupted; resume with: x", figures, ""]
    stopped = Ending(code=130, said=said, reason="interrupted; this looked best so far").failure
    assert stopped.splitlines()[:2] == [
        "interrupted; this looked best so far", "interrupted; resume with: x",
    ]  # fmt: skip
    assert len(stopped.splitlines()) == 7
    for given in (stopped, Ending(code=2, said=["error: a", figures, "hint: b"]).failure):
        assert figures not in given
    assert Ending(code=3, said=[figures], reason="nothing works").failure == "nothing works"


def test_a_host_that_cant_begin_says_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], restored_signals: None
) -> None:
    assert main({ROOT: str(tmp_path)}) == 2
    failure = (tmp_path / "output" / "failure").read_text()
    assert failure.startswith(f"error: {tmp_path}/input/data/code/job.json: can't be read")
    assert failure in capfd.readouterr().err
    code = Layout(root=tmp_path).code
    code.mkdir(parents=True)
    write_job(code, nodes=3, token=TOKEN)
    environ = {"SM_HOSTS": '["a", "b"]', "SM_CURRENT_HOST": "a", ROOT: str(tmp_path)}
    assert main(environ) == 2
    assert "nodes: 3 but the job has 2 hosts" in (tmp_path / "output" / "failure").read_text()


@pytest.fixture
def restored_signals() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


FAMILY = """
import subprocess, sys, time
sleep = [sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(600)"]
child = subprocess.Popen(sleep, start_new_session=True)
print(child.pid, file=sys.stderr, flush=True)
time.sleep(600)
"""


def test_a_child_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    child = Child([sys.executable, "-c", FAMILY], variables={}, folder=tmp_path)
    eventually(lambda: bool(child.said))
    grandchild = int(child.said[0])
    assert child.exit_code is None
    child.end(patience_s=0.1)
    assert child.exit_code == 143
    eventually(lambda: grandchild not in living_processes())


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def test_workers_learn_where_ray_is_and_when_all_is_over() -> None:
    port = free_port()
    heard: list[int] = []

    def work() -> None:
        with joined(lambda: "127.0.0.1", "algo-2", TOKEN, goes_on=lambda: True, port=port) as line:
            assert line.ray == "10.0.0.1:6379"
            heard.append(line.code(60.0) or 0)

    worker = threading.Thread(target=work)
    worker.start()  # before the head is there
    meeting = Meeting("127.0.0.1", TOKEN, "10.0.0.1:6379", port)
    eventually(lambda: meeting.present == {"algo-2"})
    meeting.dismiss(3)
    worker.join(60)
    assert heard == [3]


def test_a_head_that_is_gone_is_noticed() -> None:
    port = free_port()
    meeting = Meeting("127.0.0.1", TOKEN, "r", port)
    with joined(lambda: "127.0.0.1", "algo-2", TOKEN, goes_on=lambda: True, port=port) as line:
        assert line.code(0.01) is None
        eventually(lambda: bool(meeting.present))
        meeting._lines["algo-2"].close()
        with pytest.raises(ExecutorError, match="first host is gone"):
            line.code(60.0)
    meeting.dismiss(0)


def test_who_doesnt_know_the_token_learns_nothing() -> None:
    port = free_port()
    meeting = Meeting("127.0.0.1", TOKEN, "secret place", port)
    for greeting in (b'{"host": "x", "token": "wrong"}\n', b"[]\n", b"\xff\n", b"x" * 5000):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as stranger:
            stranger.sendall(greeting)
            try:
                assert stranger.recv(100) == b""
            except ConnectionResetError:
                continue
    assert meeting.present == set()
    meeting.dismiss(0)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ExecutorError, match=f"127.0.0.1:{port}: can't be listened on"):
            Meeting("127.0.0.1", TOKEN, "r", port)


def test_a_head_that_never_comes_is_given_up() -> None:
    goes_on = iter([True, False]).__next__
    with (
        pytest.raises(ExecutorError, match="first host can't be reached on port"),
        joined(lambda: "127.0.0.1", "a", TOKEN, goes_on=goes_on, port=free_port()),
    ):
        raise AssertionError("there is no head")


def test_the_entrypoint_installs_the_wheel_and_nothing_of_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(start, "HERE", tmp_path)
    monkeypatch.setattr(start, "pip", lambda *words: asked.append(words))
    start.install()
    assert asked == [], "nothing was sent, so nothing is installed"
    wheel, requirements = tmp_path / "autotune_train-1-py3-none-any.whl", "requirements.txt"
    wheel.touch()
    (tmp_path / requirements).touch()
    start.install()
    assert asked[0] == ("install", "--requirement", str(tmp_path / requirements))
    assert asked[1] == ("install", "--no-deps", "--no-index", str(wheel))


def started(code: Path, **variables: str) -> "subprocess.Popen[bytes]":
    """The entrypoint in `code`, where something is to be installed, with its root beside it."""
    code.mkdir()
    shutil.copy(start.__file__, code)
    (code / "requirements.txt").write_text("there-is-no-such-thing==7\n")
    environment = {**os.environ, "AUTOTUNE_SAGEMAKER_ROOT": str(code.parent / "ml"), **variables}
    return subprocess.Popen([sys.executable, str(code / "start.py")], env=environment)


def test_pips_failure_is_the_jobs(tmp_path: Path) -> None:
    assert started(tmp_path / "code", PIP_NO_INDEX="1").wait(60) == 1
    failure = (tmp_path / "ml" / "output" / "failure").read_text()
    assert "No matching distribution found for there-is-no-such-thing==7" in failure


def test_a_job_that_is_stopped_while_pip_installs_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    (tmp_path / "pip" / "__main__.py").write_text(
        "import os, sys, time\n"
        "open(os.environ['PIP_IS'] + '-', 'w').write(str(os.getpid()))\n"
        "os.rename(os.environ['PIP_IS'] + '-', os.environ['PIP_IS'])\n"
        "time.sleep(600)\n"
    )
    there = tmp_path / "there"
    with started(tmp_path / "code", PYTHONPATH=str(tmp_path), PIP_IS=str(there)) as process:
        deadline = time.monotonic() + 60
        while not there.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    assert int(there.read_text()) not in living_processes()
    failure = (tmp_path / "ml" / "output" / "failure").read_text()
    assert "stopped by SIGTERM while the container was set up" in failure

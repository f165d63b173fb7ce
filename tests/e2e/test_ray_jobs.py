"""A cluster that wants a token: `ray job submit`, a driver that is killed, and `resume`."""

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests import netns, ray_hosts
from tests.ray_command import PATIENCE_S, STUDY, address, autotune, wait_for

pytest.importorskip("ray", reason="Ray (the extra `ray`) is not installed")
pytestmark = [pytest.mark.long, pytest.mark.netns, pytest.mark.timeout(900)]
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
DASHBOARD = 8265


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[ray_hosts.RayNode]]:
    if reason := netns.why_not():
        pytest.skip(reason)
    with (
        netns.hosts(2, rate="1gbit") as hosts,
        ray_hosts.cluster(hosts, with_dashboard=True, **TOKEN) as made,
    ):
        yield made


def submitted(
    node: ray_hosts.RayNode, folder: Path, *words: str, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """`ray job submit` of `words` from `folder`, and all that the job has printed."""
    command = ["ray", "job", "submit", "--address", f"http://{node.host.address}:{DASHBOARD}"]
    return subprocess.run(
        node.host.command(*command, "--working-dir", str(folder), "--", *words),
        env={**node.variables, **variables}, cwd=folder, capture_output=True, text=True,
        timeout=3 * PATIENCE_S, check=False,
    )  # fmt: skip


def test_a_study_runs_inside_a_job(nodes: list[ray_hosts.RayNode], tmp_path: Path) -> None:
    (tmp_path / "sent").mkdir()
    words = [
        "env", f"AUTOTUNE_HOME={tmp_path / 'home'}",
        "autotune", "run", "--executor", "ray", "--nodes", "2", *STUDY,
        "--only", "accumulation_steps,bucket_cap_mb", "--trials", "15", "--budget", "90s",
        "--output", str(tmp_path / "best.yaml"),
    ]  # fmt: skip
    done = submitted(nodes[0], tmp_path / "sent", *words)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "succeeded" in said
    assert re.search(r"confirm +defaults", said), said
    best = yaml.safe_load((tmp_path / "best.yaml").read_text())
    assert f"run {best['run']}: tiny on " in said
    assert best["for"]["nodes"] == 2


def test_without_the_token_nothing_is_started(
    nodes: list[ray_hosts.RayNode], tmp_path: Path
) -> None:
    (tmp_path / "sent").mkdir()
    done = submitted(nodes[0], tmp_path / "sent", "true", RAY_AUTH_TOKEN="f" * 64)
    assert done.returncode != 0
    words = ["run", *address(nodes), *STUDY, "--output", "best.yaml"]
    node = nodes[0]
    with autotune(node, tmp_path, *words, before=("env", f"RAY_AUTH_TOKEN={'f' * 64}")) as run:
        run.communicate(timeout=PATIENCE_S)
    said = (tmp_path / "stderr").read_text()
    assert run.returncode in (1, 2), said
    assert "token" in said
    assert "Traceback" not in said


def trial_processes(nodes: list[ray_hosts.RayNode]) -> list[int]:
    """Of agents, the processes that ranks are forked from, and the ranks."""
    pids = [pid for node in nodes for pid in ray_hosts.descendants(node.raylet())]
    return [pid for pid in pids if b"autotune.trainers" in ray_hosts.command_of(pid)]


def test_a_killed_driver_takes_its_ranks_along_and_is_resumed(
    nodes: list[ray_hosts.RayNode], tmp_path: Path
) -> None:
    words = ["--nodes", "2", *STUDY, "--only", "accumulation_steps", "--strategy", "grid"]
    words += ["--trials", "1", "--budget", "60s", "--output", "best.yaml"]
    with autotune(nodes[0], tmp_path, "run", *address(nodes), *words) as run:
        wait_for(run, tmp_path, r"\[  1\]")
        assert len(trial_processes(nodes)) >= 2
        run.kill()
    deadline = time.monotonic() + 10
    while left := trial_processes(nodes):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    with autotune(nodes[0], tmp_path, "resume", "latest", *address(nodes)) as run:
        run.communicate(timeout=PATIENCE_S)
    said = (tmp_path / "stderr").read_text()
    assert run.returncode == 0, said
    assert re.search(r"\[ +[01]\]", said) is None, "a trial was repeated"
    assert yaml.safe_load((tmp_path / "best.yaml").read_text())["for"]["nodes"] == 2

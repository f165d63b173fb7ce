"""`autotune run --executor ray` between two hosts, as a person uses it."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import netns, ray_hosts

pytest.importorskip("ray", reason="Ray (the extra `ray`) is not installed")
pytestmark = [pytest.mark.netns, pytest.mark.timeout(900)]
PATIENCE_S = 200.0
STUDY = ["--instance", "local", "--workload", "tiny", "--nproc", "1", "--window", "0.05s"]


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[ray_hosts.RayNode]]:
    if reason := netns.why_not():
        pytest.skip(reason)
    with netns.hosts(2, rate="1gbit") as hosts, ray_hosts.cluster(hosts) as made:
        yield made


@contextmanager
def autotune(node: ray_hosts.RayNode, home: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """`autotune` on a host of the cluster; what it says goes to home/stderr."""
    with (home / "stderr").open("w") as errors:
        process = subprocess.Popen(
            node.host.command("autotune", *words),
            env={**node.variables, "AUTOTUNE_HOME": str(home)},
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with process:
        try:
            yield process
        finally:
            process.kill()


def address(nodes: list[ray_hosts.RayNode]) -> list[str]:
    return ["--executor", "ray", "--address", f"{nodes[0].host.address}:{ray_hosts.PORT}"]


def wait_for(run: "subprocess.Popen[str]", home: Path, pattern: str) -> re.Match[str]:
    """Until `run` has said on stderr what `pattern` matches."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        ended = run.poll() is not None
        said = (home / "stderr").read_text()
        if found := re.search(pattern, said):
            return found
        assert not ended, said
        assert time.monotonic() < deadline, said
        time.sleep(0.1)


def test_a_lost_node_costs_one_trial_of_a_study(
    nodes: list[ray_hosts.RayNode], tmp_path: Path
) -> None:
    words = ["--nodes", "2", *STUDY, "--output", "best.yaml"]
    with autotune(nodes[0], tmp_path, "run", *address(nodes), *words) as run:
        wait_for(run, tmp_path, r"\[  3\]")
        nodes[1].kill()
        number = int(wait_for(run, tmp_path, r"\[ *(\d+)\] .*preempted: .*went away")[1])
        nodes[1].stop()
        nodes[1].start()
        wait_for(run, tmp_path, rf"\[ *{number + 1}\] ")
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 130, (tmp_path / "stderr").read_text()
    with autotune(nodes[0], tmp_path, "show", "latest", "--format", "json") as show:
        trials: list[dict[str, Any]] = json.loads(show.communicate(timeout=PATIENCE_S)[0])["trials"]
    outcomes = [trial["outcome"] for trial in trials]
    assert outcomes.count("preempted") == 1
    assert set(outcomes) <= {"completed", "pruned", "preempted", "cancelled"}
    # The same again, on what is there.
    assert trials[number + 1]["candidate"] == trials[number]["candidate"]


def test_more_trials_at_once_than_fit_are_refused(
    nodes: list[ray_hosts.RayNode], tmp_path: Path
) -> None:
    words = ["--nodes", "2", *STUDY, "--output", "best.yaml", "--parallel-trials", "2"]
    with autotune(nodes[0], tmp_path, "run", *address(nodes), *words) as run:
        run.communicate(timeout=PATIENCE_S)
    said = (tmp_path / "stderr").read_text()
    assert run.returncode == 2
    assert "--parallel-trials: 2 needs 4 nodes, 2 for each, and this cluster has 2" in said
    assert "hint: " in said
    assert "Traceback" not in said

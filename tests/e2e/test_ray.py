"""`autotune run --executor ray` between two hosts, as a person uses it.

In CI it runs on nodes of one host: tests/integration/test_ray_lanes.py.
"""

import json
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from autotune.exporters import to_yaml
from tests import netns, ray_hosts
from tests.bests import best_here
from tests.ray_command import PATIENCE_S, STUDY, address, autotune, wait_for

pytest.importorskip("ray", reason="Ray (the extra `ray`) is not installed")
pytestmark = [pytest.mark.long, pytest.mark.netns, pytest.mark.timeout(900)]
RATE = "1gbit"
CLIENT_PORT = 10001
SCRIPT = Path(__file__).parents[1] / "scripts" / "train.py"
HIDDEN = 'mount -t tmpfs none /mnt && cp "$0" /mnt/train.py && cd /mnt && exec "$@"'
"""In a mount namespace of its own: a folder with the script that no other process sees."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[ray_hosts.RayNode]]:
    if reason := netns.why_not():
        pytest.skip(reason)
    with netns.hosts(2, rate=RATE) as hosts, ray_hosts.cluster(hosts) as made:
        yield made


def test_a_script_is_sent_to_the_nodes_by_a_client_and_a_slow_link_named(
    nodes: list[ray_hosts.RayNode], tmp_path: Path
) -> None:
    client = ["--executor", "ray", "--address", f"ray://{nodes[0].host.address}:{CLIENT_PORT}"]
    words = [
        "--nodes", "2", "--instance", "local", "--nproc", "1", "--window", "0.05s",
        "--only", "accumulation_steps", "--strategy", "grid", "--trials", "1", "--budget", "30s",
        "--global-batch", "16", "--output", str(tmp_path / "best.yaml"),
    ]  # fmt: skip
    script = ["train.py", "--micro-batch", "{micro_batch}", "--accumulate", "{accumulation_steps}"]
    before = ("unshare", "-m", "sh", "-c", HIDDEN, str(SCRIPT))
    nodes[1].host.shape("100mbit")
    try:
        all_words = ["run", *client, *words, "--", *script]
        with autotune(nodes[0], tmp_path, *all_words, before=before) as run:
            run.communicate(timeout=PATIENCE_S)
    finally:
        nodes[1].host.shape(RATE)
    said = (tmp_path / "stderr").read_text()
    assert run.returncode == 0, said
    slow, fast = nodes[1].host.address, nodes[0].host.address
    assert re.search(rf"what \S+ \({slow}\) sends to \S+ \({fast}\) takes \d+", said), said
    best = yaml.safe_load((tmp_path / "best.yaml").read_text())
    assert best["for"]["nodes"] == 2
    assert (best["script"]["samples"], best["fingerprint"]["parameters"]) == ("counted", 17)


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


def test_an_answer_is_verified_on_as_many_nodes(
    nodes: list[ray_hosts.RayNode], tmp_path: Path
) -> None:
    """The baseline is held at what makes it slower, so that the answer is known."""
    best = best_here({"micro_batch": 8, "accumulation_steps": 1})
    evidence = replace(best.evidence, pinned={"accumulation_steps": 8}, ratio=None)
    target = replace(best.target, nodes=2, ranks_per_node=1)
    text = to_yaml(replace(best, evidence=evidence, target=target))
    (tmp_path / "best.yaml").write_text(text, encoding="utf-8")
    words = ["verify", "best.yaml", *address(nodes), "--window", "0.05s", "--format", "json"]
    with autotune(nodes[0], tmp_path, *words) as run:
        answer, _ = run.communicate(timeout=PATIENCE_S)
    said = (tmp_path / "stderr").read_text()
    assert run.returncode == 0, said
    assert json.loads(answer)["verification"] == "holds"
    assert said.count("round ") == 10


def test_groups_that_share_a_narrow_link_run_one_at_a_time(tmp_path: Path) -> None:
    """Four nodes are two groups, whose gradients go through one link of 40 Mbit/s in all."""
    if reason := netns.why_not():
        pytest.skip(reason)
    with netns.hosts(4, rate=RATE, shared="40mbit") as hosts, ray_hosts.cluster(hosts) as four:
        words = ["--nodes", "2", *STUDY, "--parallel-trials", "auto", "--output", "best.yaml"]
        with autotune(four[0], tmp_path, "run", *address(four), *words) as run:
            text = wait_for(run, tmp_path, r"trials run one at a time from now on: .*", 600.0)[0]
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=PATIENCE_S)
    said = (tmp_path / "stderr").read_text()
    assert run.returncode == 130, said
    assert "2 trials run at once, on 2 groups of nodes: the cluster has 4 nodes that are al" in said
    figures = r"makes ([\d.,]+) samples/s alone and ([\d.,]+) beside itself"
    found = re.search(figures, text)
    assert found, text
    alone, beside = (float(figure.replace(",", "")) for figure in found.groups())
    assert beside < 0.75 * alone

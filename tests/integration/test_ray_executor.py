"""The Ray executor on a real cluster of three nodes, all on this machine."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from autotune.errors import ExecutorError, FieldError, UserError
from autotune.model import Outcome, Window
from autotune.model.protocol import Verdict
from tests.ray_hosts import QUIET, environment

pytest.importorskip("ray", reason="Ray (the extra `ray`) is not installed")
os.environ.update(QUIET)

import ray
from ray.cluster_utils import Cluster

from autotune.executors.family import living_process
from autotune.executors.ray import heartbeat
from autotune.executors.ray.actor import AgentOptions
from autotune.executors.ray.executor import RayExecutor
from tests.ray_driver import COMMAND, launch

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
DRIVER = Path(__file__).parents[1] / "ray_driver.py"
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
PATIENCE_S = 60.0
LIMIT_S = 10.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    made = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "object_store_memory": 80 * 2**20,
            "include_dashboard": False,
        },
    )
    try:
        for _ in range(2):
            made.add_node(**NODE)
        made.add_node(**NODE | {"num_cpus": 2})
        yield made
    finally:
        made.shutdown()


@pytest.fixture(scope="module")
def executor(cluster: Any) -> Iterator[RayExecutor]:
    os.environ["NCCL_TEST_CARRIED"] = "yes"
    options = AgentOptions(cold=True, rank_command=COMMAND, term_s=0.3)
    with RayExecutor(2, address=cluster.address, options=options) as made:
        yield made
    del os.environ["NCCL_TEST_CARRIED"]


def go(_window: Window) -> Verdict:
    return Verdict.GO


def marked(mark: str) -> list[int]:
    """Pids of processes with FAKE_MARK=`mark`, wherever they are."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"FAKE_MARK={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def used_nodes() -> set[str]:
    """Ray's ids of the nodes that a placement group holds."""
    placed = ray.util.placement_group_table().values()
    return {
        node
        for one in placed
        if one["state"] == "CREATED"
        for node in one["bundles_to_node_id"].values()
    }


def wait_for(count: int, mark: str, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while len(marked(mark)) != count:
        assert time.monotonic() < deadline, f"{len(marked(mark))} processes, not {count}"
        time.sleep(0.05)


def test_a_trial_runs_on_two_nodes_and_its_logs_come_here(
    executor: RayExecutor, tmp_path: Path
) -> None:
    windows: list[Window] = []

    def on_window(window: Window) -> Verdict:
        windows.append(window)
        return Verdict.GO

    end = executor.run(launch("complete", tmp_path / "trial"), on_window, Event())
    assert (end.outcome, end.reason, len(windows)) == (Outcome.COMPLETED, "", 5)
    assert len({facts.pid for facts in executor.facts}) == 2
    assert sorted(path.name for path in (tmp_path / "trial").iterdir()) == [
        "rank-0.log",
        "rank-1.log",
    ]


def test_a_trial_is_stopped_by_its_window(executor: RayExecutor, tmp_path: Path) -> None:
    end = executor.run(launch("complete", tmp_path), lambda _: Verdict.STOP, Event())
    assert (end.outcome, end.measurement and len(end.measurement.windows)) == (Outcome.PRUNED, 1)


def test_variables_of_the_trial_and_of_the_driver_reach_all_ranks(
    executor: RayExecutor, tmp_path: Path
) -> None:
    trial = launch("print_environment", tmp_path, mark="a $value")
    assert executor.run(trial, go, Event()).outcome is Outcome.COMPLETED
    for rank in range(2):
        seen = (tmp_path / f"rank-{rank}.log").read_text().splitlines()
        assert {"FAKE_MARK=a $value", "NCCL_TEST_CARRIED=yes", f"RANK={rank}"} <= set(seen)
        assert {"LOCAL_RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=1"} <= set(seen)
        assert any(line.startswith("GLOO_SOCKET_IFNAME=") for line in seen)
        # Ray's own number is that of the CPUs it was told of.
        assert "MASTER_ADDR=127.0.0.1" not in seen


def test_a_rank_that_crashes_is_named_with_its_log(executor: RayExecutor, tmp_path: Path) -> None:
    end = executor.run(launch("one_segfaults", tmp_path), go, Event())
    assert (end.outcome, end.failed_rank) == (Outcome.CRASHED, 1)
    assert end.log_path == str(tmp_path / "rank-1.log")


def test_a_cancelled_trial_leaves_no_process(executor: RayExecutor, tmp_path: Path) -> None:
    cancel, mark = Event(), f"cancel-{os.getpid()}"

    def cancel_soon() -> None:
        wait_for(2, mark, PATIENCE_S)
        cancel.set()

    Thread(target=cancel_soon, daemon=True).start()
    end = executor.run(launch("windows_forever", tmp_path, mark=mark), go, cancel)
    assert (end.outcome, marked(mark)) == (Outcome.CANCELLED, [])


def test_a_killed_agent_costs_one_trial(executor: RayExecutor, tmp_path: Path) -> None:
    mark = f"agent-{os.getpid()}"
    victim = executor.facts[1].pid

    def kill_soon() -> None:
        wait_for(2, mark, PATIENCE_S)
        os.kill(victim, signal.SIGKILL)

    Thread(target=kill_soon, daemon=True).start()
    end = executor.run(launch("windows_forever", tmp_path, mark=mark), go, Event())
    assert end.outcome is Outcome.PREEMPTED
    assert "went away" in end.reason
    wait_for(0, mark, LIMIT_S)
    assert executor.run(launch("complete", tmp_path), go, Event()).outcome is Outcome.COMPLETED
    assert victim not in {facts.pid for facts in executor.facts}


def test_a_frozen_agent_costs_one_trial(executor: RayExecutor, tmp_path: Path) -> None:
    victim = executor.facts[1]
    os.kill(victim.pid, signal.SIGSTOP)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heartbeat, "SILENT_S", 5.0)
        end = executor.run(launch("complete", tmp_path), go, Event())
    assert end.outcome is Outcome.PREEMPTED
    name = re.escape(f"{victim.host} ({victim.address}, node 1)")
    assert re.search(rf"{name} went away: its agent hasn't answered for \d+ s", end.reason)
    assert executor.run(launch("complete", tmp_path), go, Event()).outcome is Outcome.COMPLETED
    assert living_process(victim.pid) is None


def test_what_a_trial_has_left_ends_with_an_agent_that_ray_ends(
    executor: RayExecutor, tmp_path: Path
) -> None:
    mark = f"children-{os.getpid()}"
    victim = executor._lanes[0].take(PATIENCE_S, Event()).agents[1]

    def end_soon() -> None:
        wait_for(6, mark, PATIENCE_S)
        ray.kill(victim)

    Thread(target=end_soon, daemon=True).start()
    end = executor.run(launch("windows_beside_children", tmp_path, mark=mark), go, Event())
    assert end.outcome is Outcome.PREEMPTED
    wait_for(0, mark, LIMIT_S)


def test_a_lost_node_costs_one_trial(executor: RayExecutor, cluster: Any, tmp_path: Path) -> None:
    mark = f"node-{os.getpid()}"
    executor._lanes[0].take(PATIENCE_S, Event())
    lost = next(node for node in cluster.worker_nodes if node.node_id in used_nodes())

    def remove_soon() -> None:
        wait_for(2, mark, PATIENCE_S)
        os.kill(lost.all_processes["raylet"][0].process.pid, signal.SIGKILL)

    Thread(target=remove_soon, daemon=True).start()
    end = executor.run(launch("windows_forever", tmp_path, mark=mark), go, Event())
    assert end.outcome is Outcome.PREEMPTED
    wait_for(0, mark, LIMIT_S)
    cluster.remove_node(lost, allow_graceful=False)
    cluster.add_node(**NODE)
    assert executor.run(launch("complete", tmp_path), go, Event()).outcome is Outcome.COMPLETED


def test_every_node_tells_how_fast_it_is(executor: RayExecutor, tmp_path: Path) -> None:
    reduced, *slow = executor.preflight()
    assert re.fullmatch(r"an all-reduce of 4 MiB between the nodes takes \d+\.\d ms", reduced)
    # Both are the same machine; which of them a busy moment hits is nobody's fault.
    assert all("times as long as" in line for line in slow)
    assert executor.run(launch("complete", tmp_path), go, Event()).outcome is Outcome.COMPLETED


def test_nodes_that_differ_are_left_alone(cluster: Any, executor: RayExecutor) -> None:
    (notice,) = executor.left_out
    assert re.search(r"left out: .*: 1 with 2 CPUs, .*; the study takes the 2 with 1 CPU,", notice)
    larger = {node["NodeID"] for node in ray.nodes() if node["Resources"].get("CPU") == 2}
    assert len(larger) == 1
    assert not larger & used_nodes()
    with pytest.raises(UserError, match=r"2 with 1 CPU, local-.*; 1 with 2 CPUs, local-"):
        RayExecutor(3, address=cluster.address)


def test_more_nodes_than_there_are_is_refused_at_once(cluster: Any, executor: RayExecutor) -> None:
    with pytest.raises(FieldError, match=r"--nodes: 4 is more than this cluster has: 3 nodes"):
        RayExecutor(4, address=cluster.address)


def test_other_numbers_of_nodes_are_refused(executor: RayExecutor, tmp_path: Path) -> None:
    with pytest.raises(ExecutorError, match="2 nodes were taken, 1 were asked for"):
        executor.run(replace(launch("complete", tmp_path), nodes=1), go, Event())


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)]
)
def test_ranks_end_when_their_driver_does(
    cluster: Any, executor: RayExecutor, number: signal.Signals
) -> None:
    executor.release()  # its nodes, for the other driver
    mark = f"driver-{number}-{os.getpid()}"
    words = [sys.executable, str(DRIVER), cluster.address, "windows_forever", mark]
    driver = subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL)
    try:
        wait_for(2, mark, PATIENCE_S)
        driver.send_signal(number)
        wait_for(0, mark, LIMIT_S)
    finally:
        driver.kill()
        driver.wait(timeout=60)

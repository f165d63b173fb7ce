"""Which nodes of a Ray cluster a study takes, by what Ray says of them."""

import re
import socket
import subprocess
import sys
from typing import Any

import pytest

from autotune.cli.on_ray import ClusterOptions, chosen_cluster, for_cluster
from autotune.cli.options import ExecutorName
from autotune.errors import ExecutorError, FieldError, UserError
from autotune.executors.rank_environment import carried_environment
from autotune.model import Machine
from autotune.request import Request

pytest.importorskip("ray", reason="Ray (the extra `ray`) is not installed")

from autotune.executors.ray import cluster
from autotune.executors.ray.choice import Choice, Node, choose, groups_taken, lanes_of
from autotune.executors.ray.cluster import find_nodes
from autotune.executors.ray.interface import interface_of
from autotune.executors.ray.kind import NodeKind
from autotune.executors.ray.survey import Answer

A100 = {"CPU": 96.0, "GPU": 8.0, "accelerator_type:A100": 1.0}
H100 = {"CPU": 192.0, "GPU": 8.0, "accelerator_type:H100": 1.0}
HEAD = {"CPU": 4.0, "memory": 1.0}
EMPTY = {"memory": 1.0}
NAMES = {96: "a100", 192: "h100", 4: "small"}


def having(monkeypatch: pytest.MonkeyPatch, *nodes: dict[str, float], dead: int = 0) -> None:
    """A cluster of these; each says of itself what Ray says of it."""
    every = [(True, node) for node in nodes] + [(False, A100)] * dead
    made: list[dict[str, Any]] = [
        {"Alive": lives, "Resources": node, "NodeID": f"id{n}", "NodeManagerAddress": f"10.0.0.{n}"}
        for n, (lives, node) in enumerate(every)
    ]
    cpus = {f"id{n}": int(node.get("CPU", 0)) for n, (_, node) in enumerate(every)}

    def survey(gpus: dict[str, int]) -> dict[str, Answer]:
        return {node: Answer(machine=machine(NAMES[cpus[node]])) for node in gpus}

    monkeypatch.setattr(cluster.ray, "nodes", lambda: made)
    monkeypatch.setattr(cluster, "survey", survey)


def machine(name: str) -> Machine:
    return Machine(
        instance=name, gpus=(), cpu="", cores=1, memory_bytes=1, numa_nodes=1, versions={}
    )


def anything(_: Machine) -> str:
    return ""


def test_where_there_are_gpus_only_nodes_with_gpus_count(monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, HEAD, HEAD, A100, A100)
    choice = find_nodes(2, anything)
    assert choice == Choice(kind=NodeKind(gpus=8, accelerator="A100", cpus=96), count=2)
    assert choice.kind.bundle == {"GPU": 8, "CPU": 96, "accelerator_type:A100": 0.001}
    assert choice.kind.labels == {}


def test_a_head_without_cpus_is_no_node_to_train_on(monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, EMPTY, HEAD)
    assert find_nodes(1, anything).kind.bundle == {"CPU": 4}
    with pytest.raises(FieldError, match="2 is more than this cluster has: 1 node to train on, 2"):
        find_nodes(2, anything)


def test_dead_nodes_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, A100, dead=3)
    with pytest.raises(FieldError, match="has: 1 node"):
        find_nodes(2, anything)


def test_the_largest_group_of_equal_nodes_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, A100, H100, H100)
    choice = find_nodes(1, anything)
    assert (choice.kind.accelerator, choice.kind.without) == ("H100", ("id0",))
    assert choice.kind.labels == {"ray.io/node-id": "!in(id0)"}
    assert choice.notices == (
        "left out: 10.0.0.0: 1 with 8 A100 GPUs and 96 CPUs, a100; the study takes the 2 with 8 "
        "H100 GPUs and 192 CPUs, h100",
    )


def test_what_was_asked_for_decides_before_the_number_does(monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, A100, H100, H100)
    choice = find_nodes(1, lambda found: "it isn't a p4d" if found.instance != "a100" else "")
    assert choice.kind.accelerator == "A100"
    assert choice.notices == ("left out: 10.0.0.1, 10.0.0.2: it isn't a p4d",)


def test_nodes_that_only_say_themselves_that_they_differ_are_no_group() -> None:
    kind = NodeKind(gpus=0, accelerator="", cpus=2)
    one, *others = [
        Node(id=name, address=name, kind=kind, machine=machine(name[0]))
        for name in ("a1", "b1", "b2")
    ]
    assert choose([one, *others], 2, anything).kind.without == ("a1",)
    silent = Node(id="c", address="c", kind=kind, fault="it says nothing")
    assert "left out: c: it says nothing" in choose([one, *others, silent], 2, anything).notices


def test_no_group_that_is_large_enough_is_refused_with_what_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    having(monkeypatch, A100, H100)
    with pytest.raises(UserError, match="1 with 8 H100 GPUs and 192 CPUs, h100; 1 with 8 A100"):
        find_nodes(2, anything)
    with pytest.raises(UserError, match=r"1 node is needed, .* h100 \(it isn't a p4d\)"):
        find_nodes(1, lambda _: "it isn't a p4d")


def test_an_address_belongs_to_an_interface() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("203.0.113.7") == ""


def test_what_communication_reads_goes_to_other_machines_and_nothing_else() -> None:
    ours = {"NCCL_ALGO": "Ring", "GLOO_SOCKET_IFNAME": "eth1", "PYTORCH_CUDA_ALLOC_CONF": "x:y"}
    stays = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "NCCL_COMM_ID": "a:1", "TMPDIR": "/t"}
    assert carried_environment(ours | stays) == ours


@pytest.mark.parametrize("name", ["--live", "--share-machine"])
def test_options_that_mean_nothing_on_a_cluster_are_refused(name: str) -> None:
    with pytest.raises(FieldError, match=rf"{name}: doesn't go with --executor ray"):
        chosen_cluster(ExecutorName.RAY, 2, None, {name: True})


@pytest.mark.parametrize(
    ("nodes", "address", "parallel"), [(2, None, None), (None, "auto", None), (None, None, "2")]
)
def test_options_of_a_cluster_need_the_executor(
    nodes: int | None, address: str | None, parallel: str | None
) -> None:
    with pytest.raises(FieldError, match="needs --executor ray"):
        chosen_cluster(ExecutorName.LOCAL, nodes, address, {}, parallel)


def test_nodes_may_be_sagemakers_as_well() -> None:
    with pytest.raises(FieldError, match="--nodes: 2 needs --executor ray or sagemaker"):
        chosen_cluster(ExecutorName.LOCAL, 2, None, {})


@pytest.mark.parametrize(("text", "trials"), [(None, 1), ("1", 1), ("12", 12), ("auto", None)])
def test_trials_at_once_are_a_number_or_as_many_as_fit(
    text: str | None, trials: int | None
) -> None:
    options = chosen_cluster(ExecutorName.RAY, 2, None, {}, text)
    assert options is not None
    assert options.parallel_trials == trials
    assert for_cluster(Request(environment={}), options).parallel_trials == trials


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "", "all"])
def test_other_numbers_of_trials_at_once_are_refused(text: str) -> None:
    with pytest.raises(FieldError, match=r"--parallel-trials: '.*' is neither auto nor a number"):
        chosen_cluster(ExecutorName.RAY, 2, None, {}, text)


def test_lanes_are_as_many_as_the_cluster_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, A100, A100, A100, H100)
    there = find_nodes(2, anything).count
    assert [lanes_of(there, nodes, None) for nodes in (1, 2, 3)] == [3, 1, 1]
    assert lanes_of(there, 1, 2) == 2
    with pytest.raises(FieldError, match=r"--parallel-trials: 2 needs 4 nodes, 2 for .* has 3"):
        lanes_of(there, 2, 2)


@pytest.mark.parametrize(
    ("taken", "room", "nodes", "there", "said"),
    [
        (
            1,
            1,
            2,
            3,
            "one at a time, on 1 group of nodes: the cluster has 3 nodes that are alike, ",
        ),
        (
            2,
            2,
            1,
            2,
            "2 trials run at once, on 2 groups of nodes: .* alike, 1 node for each trial$",
        ),
        (1, 3, 2, 6, "one at a .* those of 2 more could not be had, since they weren't free$"),
    ],
)
def test_how_many_groups_were_taken_is_said_with_the_reason(
    taken: int, room: int, nodes: int, there: int, said: str
) -> None:
    assert re.search(said, groups_taken(taken, room, nodes, there))


def test_the_command_that_resumes_names_the_cluster() -> None:
    options = chosen_cluster(ExecutorName.RAY, 2, "ray://head:10001", {})
    assert options is not None
    assert options.flags == " --executor ray --address ray://head:10001"


def test_a_request_holds_only_what_ranks_elsewhere_will_see() -> None:
    options = ClusterOptions(nodes=2, address=None)
    # Ray's own, in a job: it isn't the person's.
    around = {"OMP_NUM_THREADS": "1", "NCCL_ALGO": "Ring"}
    request = for_cluster(Request(environment=around), options)
    assert (request.environment, request.assumed) == ({"NCCL_ALGO": "Ring"}, {"nodes": "2"})


@pytest.mark.parametrize("variable", [False, True])
def test_where_nobody_listens_is_found_out_without_ray(
    monkeypatch: pytest.MonkeyPatch, variable: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setattr(cluster.ray, "init", lambda **_: pytest.fail("Ray waits for minutes"))
    if variable:
        monkeypatch.setenv("RAY_ADDRESS", address)
    with (
        pytest.raises(ExecutorError, match=f"no Ray cluster answers at '{address}'"),
        cluster.connected(cluster.AUTO if variable else address, folder=""),
    ):
        pass


def test_without_ray_it_is_said_what_to_install() -> None:
    program = (
        "import sys; sys.modules['ray'] = None\n"
        "from autotune.__main__ import main\n"
        "sys.argv = ['autotune', 'run', '--executor', 'ray', '--instance', 'local']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert (
        "error: --executor ray needs Ray, which isn't installed\nhint: pip install" in done.stderr
    )

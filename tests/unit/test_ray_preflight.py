"""Which nodes are slow, by what each of their devices and transfers took."""

import itertools
import os
import socket

import pytest

pytest.importorskip("ray", reason="Ray (the extra `ray`) is not installed")

from autotune.executors.host import describe_machine
from autotune.executors.ray.preflight import all_reduce, at_best, findings, slow_links, slow_nodes
from autotune.executors.ray.probe import Meeting, NodeProbe, probe_node


def test_nodes_that_are_alike_are_fine() -> None:
    assert slow_nodes({"a": (1.0, 1.1), "b": (1.05, 1.0), "c": (0.95, 1.1)}) == []


def test_a_slow_device_is_named_with_its_node() -> None:
    found = slow_nodes({"a (10.0.0.1)": (1.0, 1.0), "b (10.0.0.2)": (1.0, 2.0)})
    assert len(found) == 1
    assert found[0].startswith("device 1 of b (10.0.0.2) takes 2.0 times as long")


def test_of_two_nodes_the_slower_one_is_named() -> None:
    assert [line.split()[0] for line in slow_nodes({"a": (1.0,), "b": (1.4,)})] == ["b"]


@pytest.mark.parametrize("seconds", [{"a": (1.0, 9.0)}, {"a": (), "b": (1.0,)}, {}])
def test_nothing_is_said_without_others(seconds: dict[str, tuple[float, ...]]) -> None:
    assert slow_nodes(seconds) == []


def took(nodes: str, **slow: float) -> dict[tuple[str, str], float]:
    """Between all of `nodes`; `slow` has times by sender (`a_`), receiver (`_b`) or both (`ab`)."""
    pairs = {}
    for source, target in itertools.permutations(nodes, 2):
        names = (f"{source}_", f"_{target}", f"{source}{target}")
        pairs[source, target] = max([1.0, *(slow[name] for name in names if name in slow)])
    return pairs


@pytest.mark.parametrize(
    ("slow", "said"),
    [
        ({}, []),
        ({"b_": 1.2}, []),
        ({"b_": 4.0}, ["what b sends takes at least 4.0 times"]),
        ({"_b": 4.0}, ["what b receives takes at least 4.0 times"]),
        ({"b_": 4.0, "_b": 3.0}, ["what b sends", "what b receives"]),
        ({"bc": 4.0}, ["from b to c data takes 4.0 times"]),
    ],
)
def test_the_slow_end_of_slow_transfers_is_named(slow: dict[str, float], said: list[str]) -> None:
    found = slow_links(took("abcd", **slow))
    assert len(found) == len(said), found
    assert all(line.startswith(start) for line, start in zip(found, said, strict=True))


def test_of_two_nodes_the_slower_way_is_named() -> None:
    assert slow_links(took("ab", ab=1.3)) == []
    (line,) = slow_links(took("ab", ba=4.0))
    assert line.startswith("what b sends to a takes 4.0 times as long as what a sends")


def test_a_node_that_cannot_be_reached_is_named_first() -> None:
    probes = {"a": NodeProbe(fault="timed out"), "b": NodeProbe(seconds=(1.0,), fault="refused")}
    assert findings([probes]) == [
        "a: the probe failed: timed out (so did 1 more); trials will meet the same"
    ]


def test_a_busy_moment_does_not_count() -> None:
    once = {"a": NodeProbe(seconds=(1.0, 3.0), all_reduce_s=0.5, received_s={1: 9.0})}
    again = {"a": NodeProbe(seconds=(2.0, 1.1), all_reduce_s=0.25, received_s={1: 1.0})}
    best = at_best(once | {"b": NodeProbe()}, again)
    assert best == {"a": NodeProbe(seconds=(1.0, 1.1), all_reduce_s=0.25, received_s={1: 1.0})}
    assert all_reduce([best]) == ["an all-reduce of 4 MiB between the nodes takes 250.0 ms"]
    failed = {"a": NodeProbe(fault="timed out")}
    assert at_best(failed, again) == at_best(again, failed) == again


def test_a_node_tells_what_its_device_takes_and_why_it_tells_no_more() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        alone = Meeting(node=0, nodes=1, address="127.0.0.1", port=port)
        found = probe_node(alone, describe_machine(), server, cores=1)
    (seconds,) = found.seconds
    assert 0 < seconds < 10
    assert (found.received_s, found.fault) == ({}, "")
    os.environ["GLOO_SOCKET_IFNAME"] = "nowhere0"
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            two = Meeting(node=0, nodes=2, address="127.0.0.1", port=port)
            wrong = probe_node(two, describe_machine(), server, cores=1)
    finally:
        del os.environ["GLOO_SOCKET_IFNAME"]
    assert "nowhere0" in wrong.fault

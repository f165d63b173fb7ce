"""Which nodes are slow, by what each of their devices took."""

import json
import subprocess
import sys

import pytest

from autotune.executors.ray.preflight import at_best, slow_nodes


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


def test_a_busy_moment_does_not_count() -> None:
    once, again = {"a": (1.0, 3.0), "b": (1.0, 1.0)}, {"a": (2.0, 1.1), "b": (1.0, 1.0)}
    assert at_best(once, again) == {"a": (1.0, 1.1), "b": (1.0, 1.0)}
    assert at_best(once, {"b": (0.5, 2.0)}) == {"b": (0.5, 1.0)}


def test_a_node_tells_what_its_device_takes() -> None:
    words = [sys.executable, "-m", "autotune.trainers.probe", "cpu"]
    done = subprocess.run(words, capture_output=True, check=True)
    (seconds,) = json.loads(done.stdout)["seconds"]
    assert 0 < seconds < 10

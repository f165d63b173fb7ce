"""When a node's agent ends by itself."""

import subprocess
import sys

AGENT = """
import time
from autotune.executors.ray import silence
silence.IDLE_LIMIT_S = {limit_s}
silence.Silence()
print("there", flush=True)
time.sleep(600)
"""
NODE = """
import subprocess, sys
agent = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
agent.stdout.readline()
if sys.argv[2] == "stay":
    agent.wait()
"""


def last_words(limit_s: float, then: str) -> str:
    """Of an agent whose driver says nothing, and whose parent does `then`."""
    words = [sys.executable, "-c", NODE, AGENT.format(limit_s=limit_s), then]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stderr


def test_an_agent_ends_with_the_ray_process_of_its_node() -> None:
    assert last_words(600.0, "leave").startswith(
        "autotune: the process that runs this node for Ray"
    )


def test_an_agent_ends_when_its_driver_says_nothing() -> None:
    assert last_words(1.0, "stay").startswith("autotune: no word of the driver for 1 s")

"""Waits until a Ray cluster has so many nodes: `python -m autotune.sagemaker.inside.nodes`.

A process of its own, since Ray takes over the signals of one that connects.

    python -m autotune.sagemaker.inside.nodes 10.0.0.1:6379 4
"""

import sys
import time

import ray

from autotune.errors import ExecutorError
from autotune.executors.ray.cluster import connected

_STEP_S = 0.5


def main(address: str, count: int) -> None:
    """Returns once they are there; who starts it decides how long that may take."""
    while True:
        try:
            with connected(address, folder=""):
                while sum(node["Alive"] for node in ray.nodes()) < count:
                    time.sleep(_STEP_S)
                return
        except ExecutorError:
            # Not there yet.
            time.sleep(_STEP_S)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

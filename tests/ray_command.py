"""`autotune` on a host of a Ray cluster (tests/ray_hosts.py), and what it says."""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import ray_hosts

PATIENCE_S = 200.0
STUDY = [
    "--instance", "local", "--workload", "tiny", "--nproc", "1", "--global-batch", "8",
    "--window", "0.05s",
]  # fmt: skip


@contextmanager
def autotune(
    node: ray_hosts.RayNode, home: Path, *words: str, before: tuple[str, ...] = ()
) -> Iterator["subprocess.Popen[str]"]:
    """`autotune` on a host of the cluster; what it says goes to home/stderr.

    `before` are words in front of it, which run it.
    """
    with (home / "stderr").open("w") as errors:
        process = subprocess.Popen(
            node.host.command(*before, "autotune", *words),
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


def wait_for(
    run: "subprocess.Popen[str]", home: Path, pattern: str, limit_s: float = PATIENCE_S
) -> re.Match[str]:
    """Until `run` has said on stderr what `pattern` matches."""
    deadline = time.monotonic() + limit_s
    while True:
        ended = run.poll() is not None
        said = (home / "stderr").read_text()
        if found := re.search(pattern, said):
            return found
        assert not ended, said
        assert time.monotonic() < deadline, said
        time.sleep(0.1)

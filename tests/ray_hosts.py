"""A Ray cluster of hosts that are network namespaces of this machine (tests/netns.py).

    with netns.hosts(2, rate="1gbit") as hosts, cluster(hosts, folder) as nodes:
        subprocess.run(hosts[0].command("ray", "status"), env=environment())

Each node is started as a person starts it, `ray start`, in a process that is ended by its pid.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.netns import Host

PORT = 6390
PATIENCE_S = 90.0
ROOT = Path(__file__).parents[1]


QUIET = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_health_check_period_ms": "1000",
}
"""Without tokens, reports, and Ray's own niceness; and a lost node is told after 5 s, not 15.

Ray reads them when it is imported.
"""


def environment(**more: str) -> dict[str, str]:
    """Of processes that a test starts: Ray's, and drivers."""
    ours = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    return {**os.environ, **QUIET, **ours, **more}


@dataclass(kw_only=True)
class RayNode:
    """One `ray start --block` and what it has started."""

    host: Host
    head: Host
    folder: Path
    log: Path
    variables: Mapping[str, str]
    with_dashboard: bool = False
    _process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def start(self) -> None:
        is_head = self.host is self.head
        words = ["ray", "start", "--block", f"--node-ip-address={self.host.address}"]
        words += ["--num-cpus=1", f"--object-store-memory={100 * 2**20}", "--disable-usage-stats"]
        if is_head:
            words += ["--head", f"--port={PORT}", f"--temp-dir={self.folder}"]
            words += [f"--include-dashboard={str(self.with_dashboard).lower()}"]
            words += [f"--dashboard-host={self.host.address}"]
        else:
            words += [f"--address={self.head.address}:{PORT}", f"--temp-dir={self.folder}"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.host.command(*words),
                env=dict(self.variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def raylet(self) -> int:
        """Its pid, once it is there."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for pid in descendants(self._process.pid if self._process else 0):
                if b"/raylet/raylet" in command_of(pid).split(b"\0")[0]:
                    return pid
            time.sleep(0.2)
        raise TimeoutError(self.log.read_text())

    def kill(self) -> None:
        """As a machine that loses its power, for those that wait for it: SIGKILL to the raylet."""
        os.kill(self.raylet(), signal.SIGKILL)

    def stop(self) -> None:
        if self._process is None:
            return
        pids = [self._process.pid, *descendants(self._process.pid)]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait(timeout=60)
        self._process = None


@contextmanager
def cluster(
    hosts: list[Host], *, with_dashboard: bool = False, **variables: str
) -> Iterator[list[RayNode]]:
    """A node with one CPU on each host, the head on the first; ended and removed, come what may."""
    with ExitStack() as stack:
        # Short: Ray's sockets lie in it.
        folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        nodes = []
        for number, host in enumerate(hosts):
            node = RayNode(
                host=host,
                head=hosts[0],
                folder=folder / str(number),
                log=folder / f"{number}.log",
                variables=environment(**variables),
                with_dashboard=with_dashboard,
            )
            stack.callback(node.stop)
            node.start()
            node.raylet()
            nodes.append(node)
        wait_for(hosts[0], len(hosts), environment(**variables))
        yield nodes


def wait_for(head: Host, count: int, variables: Mapping[str, str]) -> None:
    """Until so many nodes live."""
    words = ("ray", "status", "--address", f"{head.address}:{PORT}")
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        status = subprocess.run(
            head.command(*words), env=dict(variables), capture_output=True, text=True, check=False
        )
        if f"/{count}.0 CPU" in status.stdout:
            return
        time.sleep(1)
    raise TimeoutError(status.stdout + status.stderr)


def descendants(pid: int) -> list[int]:
    """Living ones, also of other sessions."""
    found = [pid]
    for parent in found:
        # Those that any of its threads has started.
        for file in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += [int(child) for child in file.read_text().split()]
    return found[1:]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""

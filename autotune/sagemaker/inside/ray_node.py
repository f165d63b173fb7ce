"""Ray on one host of a job: started as a person starts it, and ended by its pids."""

import fcntl
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from autotune.errors import ExecutorError
from autotune.sagemaker.inside.child import KILL_S, Child
from autotune.sagemaker.inside.hosts import Hosts
from autotune.sagemaker.inside.job import Job
from autotune.sagemaker.inside.notice import RAY_S, Notice

PORT = 6379
_SIOCGIFADDR = 0x8915
"""From linux/sockios.h: the address of an interface."""
_OBJECTS_BYTES = 200 * 2**20
"""Ray's own default, 30 % of the memory, would be taken from the trials; only logs pass through."""


def variables(job: Job) -> dict[str, str]:
    """With which every Ray process of the job runs, drivers included."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": job.token,
        "RAY_USAGE_STATS_ENABLED": "0",
        # Ray's default of 15 lets everything else on the host go before training.
        "RAY_worker_niceness": "0",
    }


def own_address(hosts: Hosts) -> str:
    """The address by which the other hosts reach this one. Raises ExecutorError."""
    try:
        if hosts.interface:
            return _address_of(hosts.interface)
        return socket.gethostbyname(hosts.current)
    except OSError as error:
        place = hosts.interface or hosts.current
        raise ExecutorError(f"{place}: its address can't be found: {error}") from None


@contextmanager
def ray_node(
    own: str, environ: Mapping[str, str], stop: Notice, *, work: Path, head: str = ""
) -> Iterator[Child]:
    """Ray's processes on this host, within; of the cluster at `head`, or a cluster's first."""
    # Short: Ray's sockets lie in it, and their paths may have 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    words = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
    words += [f"--node-ip-address={own}", f"--temp-dir={folder}"]
    words += [f"--object-store-memory={_OBJECTS_BYTES}", "--disable-usage-stats"]
    if head:
        words += [f"--address={head}"]
    else:
        words += ["--head", f"--port={PORT}", "--include-dashboard=false"]
    child = Child(words, variables=environ, folder=work, is_quiet=True)
    try:
        yield child
    finally:
        child.end(RAY_S if stop.is_set() else KILL_S)
        shutil.rmtree(folder, ignore_errors=True)


def _address_of(interface: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode()[:15])
        return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)[20:24])

"""Hosts on one machine: network namespaces joined by a bridge, each behind a shaped link.

    with hosts(2, rate="400mbit") as made:
        subprocess.Popen(made[0].command("hostname", "-I"))

Needs root and iproute2. Names are unique to the process, so that runs don't meet.
"""

import ctypes
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

LINK = "link0"
"""The interface's name on every host."""
SHARED = "shared0"
_NETWORK = 0x40000000
"""CLONE_NEWNET of setns(2)."""
_numbers = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Host:
    """A namespace with one link to the others."""

    namespace: str
    address: str

    def command(self, *words: str) -> list[str]:
        """A command line that runs `words` on this host, in the same process."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def shape(self, rate: str) -> None:
        """Have what it sends go at another rate from now on."""
        _in(self.namespace, "tc", "qdisc", "change", "dev", LINK, "root", *_shape(rate))


def why_not() -> str:
    """Why this machine can't make hosts, or an empty text."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"{tool} (iproute2) is not installed"
    probe = f"autotune-probe-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False).returncode:
        return "this machine refuses to make a network namespace"
    _run("ip", "netns", "delete", probe)
    return ""


@contextmanager
def hosts(count: int, *, rate: str, shared: str = "") -> Iterator[list[Host]]:
    """`count` hosts whose links send at `rate`, in tc's notation; gone at the end, come what may.

    With `shared`, what all of them send goes at that rate in all, too.
    The bridge has a namespace of its own: whatever filters packets on the machine stays out of it.
    """
    prefix = f"autotune-{os.getpid()}-{next(_numbers)}"
    switch = f"{prefix}-switch"
    with ExitStack() as cleanup:
        _add_namespace(switch, cleanup)
        _in(switch, "ip", "link", "add", "bridge0", "type", "bridge")
        _in(switch, "ip", "link", "set", "bridge0", "up")
        if shared:
            _in(switch, "ip", "link", "add", SHARED, "type", "ifb")
            _in(switch, "ip", "link", "set", SHARED, "up")
            _in(switch, "tc", "qdisc", "add", "dev", SHARED, "root", *_shape(shared))
        made = []
        for number in range(count):
            host = Host(namespace=f"{prefix}-host{number}", address=f"10.77.0.{number + 1}")
            _add_namespace(host.namespace, cleanup)
            _connect(host, switch, port=f"port{number}", rate=rate)
            if shared:
                _lead(switch, f"port{number}")
            made.append(host)
        yield made


@contextmanager
def entered(host: Host) -> Iterator[None]:
    """Within, sockets and threads that this thread makes are on `host`."""
    setns = ctypes.CDLL(None, use_errno=True).setns
    with open("/proc/thread-self/ns/net") as own, open(f"/run/netns/{host.namespace}") as there:
        if setns(there.fileno(), _NETWORK):
            raise OSError(ctypes.get_errno(), f"setns {host.namespace}")
        try:
            yield
        finally:
            setns(own.fileno(), _NETWORK)


@contextmanager
def named(hosts: Mapping[str, Host]) -> Iterator[None]:
    """Within, programs that run on one of the hosts know all of them by these names."""
    text = "127.0.0.1 localhost\n" + "".join(f"{h.address} {n}\n" for n, h in hosts.items())
    folders = [Path("/etc/netns") / host.namespace for host in hosts.values()]
    try:
        for folder in folders:
            folder.mkdir(parents=True)
            (folder / "hosts").write_text(text)  # see ip-netns(8)
        yield
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def _add_namespace(name: str, cleanup: ExitStack) -> None:
    _run("ip", "netns", "add", name)
    # Interfaces inside go with it.
    cleanup.callback(_run, "ip", "netns", "delete", name)


def _connect(host: Host, switch: str, *, port: str, rate: str) -> None:
    inside = host.namespace
    # Made on the host itself: no interface ever appears in the machine's own namespace.
    _in(inside, "ip", "link", "add", LINK, "type", "veth", "peer", "name", port, "netns", switch)
    _in(inside, "ip", "address", "add", f"{host.address}/24", "dev", LINK)
    _in(inside, "ip", "link", "set", LINK, "up")
    _in(inside, "ip", "link", "set", "lo", "up")
    _in(switch, "ip", "link", "set", port, "master", "bridge0", "up")
    _in(inside, "tc", "qdisc", "add", "dev", LINK, "root", *_shape(rate))


def _lead(switch: str, port: str) -> None:
    """Have what comes in at `port` go through the link that all share."""
    _in(switch, "tc", "qdisc", "add", "dev", port, "ingress")
    every = ("protocol", "all", "u32", "match", "u32", "0", "0")
    way = ("action", "mirred", "egress", "redirect", "dev", SHARED)
    _in(switch, "tc", "filter", "add", "dev", port, "parent", "ffff:", *every, *way)


def _shape(rate: str) -> tuple[str, ...]:
    return ("tbf", "rate", rate, "burst", "256kb", "latency", "50ms")


def _in(namespace: str, *words: str) -> None:
    _run("ip", "netns", "exec", namespace, *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")

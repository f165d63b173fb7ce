"""Starts the probe of one node: a process for each of its devices, which meet those of the others.

The program: `autotune.trainers.probe`.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from socket import socket
from typing import IO, Any

from autotune.executors.rank_environment import RankPlace, rank_environment
from autotune.model import Machine

LIMIT_S = 120.0
"""Nearly all of it is for importing torch from a disk that hasn't been read before."""
_NO_CHANNEL = -1


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """Where the processes of a probe meet, and which node is told so."""

    node: int
    nodes: int
    address: str
    port: int


@dataclass(frozen=True, kw_only=True)
class NodeProbe:
    """What one node has found, in seconds."""

    seconds: tuple[float, ...] = ()
    """For each device, of the same work; empty if that can't be found."""
    all_reduce_s: float | None = None
    """Of all nodes, as this one saw it."""
    received_s: Mapping[int, float] = field(default_factory=dict)
    """By the node that sent; the slowest of the devices."""
    fault: str = ""
    """Why there is no more, as the process that failed has put it."""


def probe_node(
    meeting: Meeting, machine: Machine, server: socket | None, *, cores: int
) -> NodeProbe:
    """Takes some seconds, mostly for imports. `server` listens at the meeting's port, on node 0."""
    devices = len(machine.gpus) or 1
    command = [sys.executable, "-m", "autotune.trainers.probe", machine.device.value]
    with ExitStack() as stack:
        started: list[tuple[subprocess.Popen[str], IO[str]]] = []
        for device in range(devices):
            place = _place(meeting, device, devices, server)
            errors = stack.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
            process = subprocess.Popen(
                command,
                env=rank_environment(os.environ, {}, place, cores=cores),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                pass_fds=[] if place.store_fd is None else [place.store_fd],
            )
            stack.callback(_end, process)
            started.append((process, errors))
        deadline = time.monotonic() + LIMIT_S
        return _summary([_heard(process, errors, deadline) for process, errors in started])


def _place(meeting: Meeting, device: int, devices: int, server: socket | None) -> RankPlace:
    rank = meeting.node * devices + device
    return RankPlace(
        rank=rank,
        ranks=meeting.nodes * devices,
        nodes=meeting.nodes,
        address=meeting.address,
        port=meeting.port,
        channel_fd=_NO_CHANNEL,
        store_fd=server.fileno() if server is not None and rank == 0 else None,
    )


def _heard(
    process: "subprocess.Popen[str]", errors: IO[str], deadline: float
) -> tuple[dict[str, Any], str]:
    """What a process has told, and what was wrong with it."""
    try:
        text, _ = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return {}, f"it took more than {LIMIT_S:.0f} s"
    told: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith("{"):
            told |= json.loads(line)
    if process.returncode == 0:
        return told, ""
    errors.seek(0)
    lines = [line for line in errors.read().splitlines() if line.strip()]
    return told, lines[-1].strip() if lines else f"it ended with {process.returncode}"


def _summary(heard: list[tuple[dict[str, Any], str]]) -> NodeProbe:
    seconds = [told["seconds"] for told, _ in heard if "seconds" in told]
    reduced = [told["all_reduce_s"] for told, _ in heard if "all_reduce_s" in told]
    received: dict[int, float] = {}
    for told, _ in heard:
        for source, took in told.get("received_s", {}).items():
            received[int(source)] = max(took, received.get(int(source), 0.0))
    return NodeProbe(
        seconds=tuple(seconds) if len(seconds) == len(heard) else (),
        all_reduce_s=max(reduced, default=None),
        received_s=received,
        fault=next((fault for _, fault in heard if fault), ""),
    )


def _end(process: "subprocess.Popen[str]") -> None:
    """Also if it hangs in a collective."""
    process.kill()
    process.communicate()

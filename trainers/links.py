"""How long nodes take to pass data on: all at once, and from one to another.

Every process of a probe calls `measure`, one for each device. A slow node shows as the one whose
transfers all are slow, whoever is at the other end.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor

from autotune.model import DeviceKind
from autotune.trainers.rendezvous import Place, meet, part

BYTES = 4 * 2**20
"""A small bucket of gradients: 34 ms at 1 Gbit/s, too much for what sockets buffer."""
REPEATS = 4
WARMUPS = 1
MOST_PARTNERS = 3
"""To which each node sends: with two or more it is known which end of a slow transfer is slow."""
TIMEOUT = timedelta(seconds=60)


@dataclass(frozen=True, kw_only=True)
class Links:
    """What one process has seen, in seconds."""

    all_reduce_s: float
    received_s: dict[int, float] = field(default_factory=dict)
    """By the node that sent."""


def measure(place: Place, kind: DeviceKind, device: torch.device) -> Links:
    """Meet the others and time what goes between the nodes. Raises what torch raises."""
    store = meet(place, TIMEOUT)
    dist.init_process_group(
        kind.backend,
        store=dist.PrefixStore("links", store),  # type: ignore[attr-defined]
        rank=place.rank,
        world_size=place.ranks,
        timeout=TIMEOUT,
        device_id=device if kind is DeviceKind.CUDA else None,
    )
    data = torch.zeros(BYTES // 4, device=device)
    reduced = _timed(lambda: dist.all_reduce(data), device)
    received = _transfers(place, data, device)
    part(store, place)
    return Links(all_reduce_s=reduced, received_s=received)


def partners(nodes: int) -> range:
    """Of each node, how many nodes further on are those it sends to."""
    return range(1, min(nodes - 1, MOST_PARTNERS) + 1)


def _transfers(place: Place, data: Tensor, device: torch.device) -> dict[int, float]:
    """By source; while a node sends it doesn't receive, so that one can't slow the other."""
    per_node = place.local_ranks
    nodes, node = place.ranks // per_node, place.rank // per_node
    received: dict[int, float] = {}
    for step in partners(nodes):
        target, source = (node + step) % nodes, (node - step) % nodes
        for turn in (0, 1):
            sends, receives = (node // step) % 2 == turn, (source // step) % 2 == turn
            seconds = _timed(lambda: _pass_on(place, data, sends, receives, target, source), device)  # noqa: B023
            if receives:
                received[source] = seconds
    return received


def _pass_on(
    place: Place, data: Tensor, sends: bool, receives: bool, target: int, source: int
) -> None:
    """To and from the process with the same device there."""
    per_node, own = place.local_ranks, place.local_rank
    works = []
    if sends:
        works.append(dist.isend(data, target * per_node + own))
    if receives:
        works.append(dist.irecv(torch.empty_like(data), source * per_node + own))
    for work in works:
        if work is not None:
            work.wait()


def _timed(action: Callable[[], object], device: torch.device) -> float:
    """Seconds: the median, so that no single hiccup counts. All processes begin together."""
    times = []
    for _ in range(WARMUPS + REPEATS):
        dist.barrier()
        _wait_for(device)
        began = time.perf_counter()
        action()
        _wait_for(device)
        times.append(time.perf_counter() - began)
    return median(times[WARMUPS:])


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

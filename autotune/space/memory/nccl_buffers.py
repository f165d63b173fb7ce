"""Memory that NCCL takes for itself: buffers of every channel, for every peer, for each protocol.

Source: NCCL v2.30.7, src/transport/p2p.cc and src/transport/net.cc: a connection gets the buffers
of all protocols, whichever will be used. No GPU has confirmed the sums.
"""

from collections.abc import Mapping

from autotune.model import ShardingStrategy, TrainingSettings
from autotune.space.memory.job import MemoryJob
from autotune.space.nccl import NcclVersion, channels_in
from autotune.space.nccl.channels import parse_integer

SIMPLE_BYTES = 4 << 20
"""NCCL_BUFFSIZE's default; the plugin on AWS makes it 8 MiB."""
LL_BYTES = 8 * 512 * 8 * 16
LL128_BYTES = 120 * 640 * 8 * 8
"""Defaults of NCCL_LL_BUFFSIZE and NCCL_LL128_BUFFSIZE, from src/include/device.h."""
DEFAULT_CHANNELS = 24
"""Of an A100 with NVSwitch, from a third party's logs. Not a constant of NCCL: its search finds
from 2 (PCIe) to 32."""
RING_PEERS = 1
TREE_PEERS = 3
"""Connections of a channel with a buffer on this rank: from the ring's predecessor; in a tree from
two children and the parent."""


def nccl_bytes(job: MemoryJob, settings: TrainingSettings, environment: Mapping[str, str]) -> int:
    """Of all communicators that the strategy uses; 0 on CPU and on one rank."""
    if not job.is_cuda or job.ranks == 1:
        return 0
    # Trees exist for all-reduce only, and connections are made when first used.
    reduces_all = settings.strategy in (ShardingStrategy.DDP, ShardingStrategy.HYBRID)
    connections = RING_PEERS + (TREE_PEERS if reduces_all else 0)
    if settings.strategy is ShardingStrategy.HYBRID:
        # A ring of the shard group beside the replicas' own communicator.
        connections += RING_PEERS
    # Across nodes the sender holds a buffer as well.
    ends = 2 if job.nodes > 1 else 1
    return connections * ends * _channels(job, environment) * _connection_bytes(environment)


def _channels(job: MemoryJob, environment: Mapping[str, str]) -> int:
    bounds = channels_in(job.nccl or NcclVersion(2, 29), environment)
    least, most = bounds.minimum or 1, bounds.maximum
    count = max(DEFAULT_CHANNELS, least)
    return count if most is None else min(count, most)


def _connection_bytes(environment: Mapping[str, str]) -> int:
    sizes = (
        ("NCCL_BUFFSIZE", SIMPLE_BYTES),
        ("NCCL_LL_BUFFSIZE", LL_BYTES),
        ("NCCL_LL128_BUFFSIZE", LL128_BYTES),
    )
    total = 0
    for name, default in sizes:
        given = parse_integer(environment.get(name, ""))
        total += given if given is not None and given > 0 else default
    return total

"""What NCCL could still do for a collective under an environment, on a given machine."""

from autotune.space.nccl.algorithms import Algorithm, Protocol, available, protocols_of
from autotune.space.nccl.collectives import Collective
from autotune.space.nccl.fabric import Fabric
from autotune.space.nccl.parser import Parsed
from autotune.space.nccl.protocols import safe
from autotune.space.nccl.version import NcclVersion

Pair = tuple[Algorithm, Protocol]

_FALLS_BACK = (NcclVersion(2, 19), NcclVersion(2, 24))
_FALLBACK_KEEPS_PROTOCOLS = NcclVersion(2, 22)


def usable(
    version: NcclVersion,
    parsed: Parsed,
    collective: Collective,
    fabric: Fabric,
    *,
    reduction_is_sum: bool = True,
) -> frozenset[Pair]:
    """The algorithms and protocols that NCCL would choose from; none if it would fail instead.

    From 2.19 to 2.23 a collective that has nothing left gets Ring: with all protocols until 2.21,
    LL128 unchecked among them (`ringbdw` in src/graph/tuning.cc is taken before any filter), with
    those enabled from 2.22 on.
    """
    if parsed.error:
        return frozenset()
    if fabric.ranks == 1:
        return frozenset({(Algorithm.RING, Protocol.SIMPLE)})
    enabled = parsed.collectives[collective]
    protocols = set(enabled.protocols)
    if not enabled.ll128_unchecked and not safe(version, Protocol.LL128, fabric).possible:
        protocols.discard(Protocol.LL128)
    exists = available(version, collective, fabric, reduction_is_sum=reduction_is_sum)
    pairs = {
        (algorithm, protocol)
        for algorithm in exists & enabled.algorithms
        for protocol in protocols & protocols_of(algorithm)
    }
    if not pairs and _FALLS_BACK[0] <= version < _FALLS_BACK[1]:
        kept = protocols if version >= _FALLBACK_KEEPS_PROTOCOLS else set(Protocol)
        pairs = {(Algorithm.RING, protocol) for protocol in kept}
    return frozenset(pairs)

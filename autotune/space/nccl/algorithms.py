"""NCCL's algorithms and protocols: where each exists, and why it doesn't elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from autotune.space.nccl.collectives import Collective
from autotune.space.nccl.fabric import Fabric, Network
from autotune.space.nccl.version import NcclVersion


class Algorithm(StrEnum):
    """How a collective is carried out."""

    TREE = "tree"
    RING = "ring"
    COLLNET_DIRECT = "collnet_direct"
    COLLNET_CHAIN = "collnet_chain"
    NVLS = "nvls"
    NVLS_TREE = "nvls_tree"
    PAT = "pat"

    @property
    def token(self) -> str:
        """Its name in NCCL_ALGO, where case doesn't matter and there are no underscores."""
        return self.value.replace("_", "")


class Protocol(StrEnum):
    """How bytes travel and are known to have arrived."""

    LL = "ll"
    LL128 = "ll128"
    SIMPLE = "simple"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether something is possible; `reason` is a sentence if it isn't, else empty."""

    reason: str = ""

    @property
    def possible(self) -> bool:
        return not self.reason


FIRST_VERSION = {
    Algorithm.TREE: NcclVersion(2, 5),
    Algorithm.RING: NcclVersion(2, 5),
    Algorithm.COLLNET_DIRECT: NcclVersion(2, 14),
    Algorithm.COLLNET_CHAIN: NcclVersion(2, 14),
    Algorithm.NVLS: NcclVersion(2, 17),
    Algorithm.NVLS_TREE: NcclVersion(2, 18),
    Algorithm.PAT: NcclVersion(2, 23),
}
"""Since when NCCL_ALGO knows the name. One CollNet from 2.5 to 2.13 was split in two in 2.14."""

_GATHER_AND_SCATTER = {Collective.ALL_GATHER, Collective.REDUCE_SCATTER}
COLLECTIVES = {
    Algorithm.TREE: {Collective.ALL_REDUCE},
    Algorithm.RING: set(Collective),
    Algorithm.COLLNET_DIRECT: {Collective.ALL_REDUCE, *_GATHER_AND_SCATTER},
    Algorithm.COLLNET_CHAIN: {Collective.ALL_REDUCE},
    Algorithm.NVLS: {Collective.ALL_REDUCE, *_GATHER_AND_SCATTER},
    Algorithm.NVLS_TREE: {Collective.ALL_REDUCE},
    Algorithm.PAT: _GATHER_AND_SCATTER,
}
"""Source: NCCL v2.30.7, ncclTopoTuneModel in src/graph/tuning.cc."""

_HOPPER = 90
_NVLS_MIN_RANKS = 3
_COLLNET_MAX_RANKS = 8


def protocols_of(algorithm: Algorithm) -> frozenset[Protocol]:
    """Only Ring and Tree have LL and LL128 kernels. Source: as COLLECTIVES."""
    if algorithm in (Algorithm.RING, Algorithm.TREE):
        return frozenset(Protocol)
    return frozenset({Protocol.SIMPLE})


def supported(
    version: NcclVersion,
    algorithm: Algorithm,
    collective: Collective,
    fabric: Fabric,
    *,
    reduction_is_sum: bool = True,
) -> Verdict:
    """Whether NCCL can run `collective` with `algorithm` on a communicator like `fabric`.

    `reduction_is_sum` is false for averages, as FSDP2 asks for unless told to sum. A communicator
    of one rank runs everything: nothing is sent.
    Source: NCCL v2.30.7, ncclTopoTuneModel and updateCollCostTable (src/enqueue.cc).
    """
    if fabric.ranks == 1:
        return Verdict()
    if version < FIRST_VERSION[algorithm]:
        first = FIRST_VERSION[algorithm]
        return Verdict(
            reason=f"{algorithm} came with NCCL {first.major}.{first.minor}, this is {version}"
        )
    if collective not in COLLECTIVES[algorithm]:
        return Verdict(reason=f"NCCL has no {algorithm} for {collective.words}")
    rule = _RULES.get(algorithm)
    is_average = collective.reduces and not reduction_is_sum
    return Verdict(reason=rule(version, collective, fabric, is_average) if rule else "")


@lru_cache(maxsize=4096)
def available(
    version: NcclVersion, collective: Collective, fabric: Fabric, *, reduction_is_sum: bool = True
) -> frozenset[Algorithm]:
    """Every algorithm that NCCL can choose from on `fabric`."""
    return frozenset(
        algorithm
        for algorithm in Algorithm
        if supported(
            version, algorithm, collective, fabric, reduction_is_sum=reduction_is_sum
        ).possible
    )


Rule = Callable[[NcclVersion, Collective, Fabric, bool], str]


def _collnet(version: NcclVersion, collective: Collective, fabric: Fabric, is_average: bool) -> str:
    """CollNet needs a plugin that reduces in the network; aws-ofi-nccl for EFA has none."""
    del version, is_average
    if fabric.network is Network.EFA:
        return "EFA doesn't reduce in the network, which CollNet is"
    if fabric.nodes == 1:
        return "CollNet is for several nodes, and there is one"
    if not fabric.collnet:
        return "CollNet needs a plugin that reduces in the network (SHARP), and none is known here"
    if fabric.ranks_per_node > _COLLNET_MAX_RANKS:
        return f"CollNet takes at most {_COLLNET_MAX_RANKS} ranks on a node"
    if collective is not Collective.ALL_REDUCE:
        return f"CollNet's {collective.words} needs a NIC for each rank, which isn't known"
    return ""


def _collnet_direct(
    version: NcclVersion, collective: Collective, fabric: Fabric, is_average: bool
) -> str:
    reason = _collnet(version, collective, fabric, is_average)
    if not reason and not fabric.nvswitch:
        return "collnet_direct needs an NVSwitch"
    return reason


def _nvls(version: NcclVersion, collective: Collective, fabric: Fabric, is_average: bool) -> str:
    reason = _nvlink_sharp(fabric)
    if reason or fabric.nodes == 1:
        return reason or _average("nvls", is_average)
    if fabric.network is Network.EFA:
        return "nvls spans nodes only with CollNet, which EFA can't do"
    if not fabric.collnet:
        return "nvls spans nodes only with CollNet (SHARP), and no plugin for it is known here"
    if collective is not Collective.ALL_REDUCE:
        return f"nvls needs a NIC for each rank for {collective.words} across nodes"
    if version < NcclVersion(2, 18):
        return f"nvls spans nodes from NCCL 2.18 on, this is {version}"
    return _average("nvls", is_average)


def _nvls_tree(
    version: NcclVersion, collective: Collective, fabric: Fabric, is_average: bool
) -> str:
    del version, collective
    if fabric.nodes == 1:
        return "nvls_tree is for several nodes, and there is one"
    return _nvlink_sharp(fabric) or _average("nvls_tree", is_average)


def _average(algorithm: str, is_average: bool) -> str:
    """Averages are a scaled sum in NCCL, which neither NVSwitches nor PAT can do."""
    if not is_average:
        return ""
    return f"{algorithm} can only sum, and FSDP averages without --set force_sum_reduction=true"


def _nvlink_sharp(fabric: Fabric) -> str:
    """Reduction inside NVSwitches.

    Source: NCCL, ncclNvlsInit in src/transport/nvls.cc returns early for two GPUs or fewer.
    """
    if fabric.compute_capability < _HOPPER:
        return f"NVLS needs Hopper or later, and the GPUs' compute capability {fabric.capability}"
    if not fabric.nvswitch:
        return "NVLS needs an NVSwitch between the GPUs"
    if fabric.nvls_off:
        return fabric.nvls_off
    if fabric.ranks_per_node < _NVLS_MIN_RANKS:
        return f"NVLS needs at least {_NVLS_MIN_RANKS} GPUs of a group on each node"
    return ""


def _pat(version: NcclVersion, collective: Collective, fabric: Fabric, is_average: bool) -> str:
    """Source: NCCL, ncclPatEnable in src/graph/tuning.cc."""
    del version
    if fabric.compute_capability < 60:
        return f"pat needs compute capability 6.0 or later, and the GPUs' {fabric.capability}"
    if fabric.nodes == 1 or fabric.ranks_per_node > 1:
        return "pat needs several nodes with one rank on each"
    if is_average and collective is Collective.REDUCE_SCATTER:
        return _average("pat", is_average)
    return ""


_RULES: dict[Algorithm, Rule] = {
    Algorithm.COLLNET_DIRECT: _collnet_direct,
    Algorithm.COLLNET_CHAIN: _collnet,
    Algorithm.NVLS: _nvls,
    Algorithm.NVLS_TREE: _nvls_tree,
    Algorithm.PAT: _pat,
}

"""Where each protocol is safe: a wrong one corrupts data silently, so doubt means no."""

from autotune.space.nccl.algorithms import Protocol, Verdict
from autotune.space.nccl.fabric import Fabric, Network
from autotune.space.nccl.version import NcclVersion
from autotune.space.unknown import unknown

_LL128_MIN_CAPABILITY = 70
_LL128_OLD_CAPABILITIES = (70, 80, 90)
_ANY_CAPABILITY_FROM = NcclVersion(2, 24)


def safe(version: NcclVersion, protocol: Protocol, fabric: Fabric) -> Verdict:
    """Whether `protocol` may be asked for on `fabric`.

    LL and LL128 need every 8 or 128 bytes to arrive whole; where EFA can't promise that its plugin
    sets NCCL_PROTO=simple. Naming LL128 up to NCCL 2.30 also skips NCCL's own check of it.
    Source: aws-ofi-nccl 1.21.1, src/platform-aws.cpp; NCCL v2.30.7, src/graph/tuning.cc.
    """
    if fabric.ranks == 1 or protocol is Protocol.SIMPLE:
        return Verdict()
    if fabric.why_simple:
        return Verdict(
            reason=f"{fabric.why_simple}: {protocol} could corrupt data without an error"
        )
    return Verdict(reason=_ll128(version, fabric) if protocol is Protocol.LL128 else "")


def _ll128(version: NcclVersion, fabric: Fabric) -> str:
    """The conditions under which NCCL itself would use LL128.

    Source: NCCL's LL128 condition in src/graph/tuning.cc (to 2.30) and isLL128Enabled in
    src/tuning/cost_model.cc (2.31); up to 2.18 at least it lists 7.0, 8.0 and 9.0 only.
    """
    capability = fabric.compute_capability
    if capability < _LL128_MIN_CAPABILITY:
        return f"ll128 needs compute capability 7.0 or later, and the GPUs' {fabric.capability}"
    if fabric.ranks_per_node > 1 and not fabric.has_nvlink:
        return "ll128 is safe over NVLink only, and the GPUs have none"
    if version < _ANY_CAPABILITY_FROM and capability not in _LL128_OLD_CAPABILITIES:
        return f"NCCL {version} knows ll128 to be safe on V100, A100 and H100 only"
    if fabric.network is Network.SOCKET:
        return "ll128 isn't known to be safe over TCP"
    if fabric.nodes > 1 and not fabric.nic_near_gpu:
        need = "ll128 between nodes needs every GPU to reach its NIC through PCIe switches only"
        is_known = fabric.nic_near_gpu is not None
        return f"{need}, which {'they do not' if is_known else unknown('nic_near_gpu', 'true')}"
    return ""

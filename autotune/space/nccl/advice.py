"""Advice that goes around and doesn't hold: names that nothing reads, settings that do harm."""

from collections.abc import Callable
from dataclasses import dataclass

from autotune.errors import closest
from autotune.space.nccl.fabric import Network
from autotune.space.nccl.names import GONE, SINCE, reads
from autotune.space.nccl.version import NcclVersion


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What is wrong with a variable, and what to do."""

    name: str
    why: str
    """A sentence."""
    instead: str
    """The next action, a sentence; says to remove it where nothing takes its place."""
    knob: str = ""
    """The logical knob that means the same, if there is one: its value can be carried over."""
    variable: str = ""
    """The variable that means the same, if there is one."""


READ_BY_OTHERS = frozenset(
    {
        "NCCL_ASYNC_ERROR_HANDLING",
        "NCCL_BLOCKING_WAIT",
        "NCCL_DESYNC_DEBUG",
        "NCCL_ENABLE_TIMING",
        "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
        "NCCL_TUNER_CONFIG_FILE",
        "NCCL_ROOT",
        "NCCL_INCLUDE_DIR",
        "NCCL_LIB_DIR",
        "NCCL_VERSION",
    }
)
"""NCCL_ names of PyTorch, of NVIDIA's example tuner plugin, of builds and of container images."""

_NOTHING = (
    "no NCCL up to 2.31 has a variable of this name, and unknown ones are ignored without a word"
)
_PLACEBOS = {
    explanation.name: explanation
    for explanation in (
        Explanation(
            name="NCCL_NCHANNELS", why=_NOTHING, knob="nccl_channels",
            instead="Set nccl_channels, which becomes a minimum and a maximum.",
        ),
        Explanation(
            name="NCCL_CHANNELS", why=_NOTHING, knob="nccl_channels",
            instead="Set nccl_channels, which becomes a minimum and a maximum.",
        ),
        Explanation(
            name="NCCL_THREADS", why=_NOTHING, variable="NCCL_NTHREADS",
            instead="Set NCCL_NTHREADS: a multiple of 32 from 64 to 512.",
        ),
        Explanation(
            name="NCCL_MIN_CHANNELS", why=_NOTHING, variable="NCCL_MIN_NCHANNELS",
            instead="Set nccl_channels, or NCCL_MIN_CTAS (from 2.17) or NCCL_MIN_NCHANNELS.",
        ),
        Explanation(
            name="NCCL_MAX_CHANNELS", why=_NOTHING, variable="NCCL_MAX_NCHANNELS",
            instead="Set nccl_channels, or NCCL_MAX_CTAS (from 2.17) or NCCL_MAX_NCHANNELS.",
        ),
        Explanation(
            name="NCCL_NVLSTREE_ENABLE", why=_NOTHING,
            instead="Choose nvls_tree, or another algorithm, with NCCL_ALGO.",
        ),
        Explanation(
            name="NCCL_TREE_THRESHOLD", why="NCCL reads it before 2.5 only",
            instead="Choose tree or ring with NCCL_ALGO.",
        ),
    )
}  # fmt: skip
_CLOSE = 0.85


def placebo(name: str) -> Explanation | None:
    """What is wrong with the name of an NCCL variable that no NCCL reads; None if one does.

    Names that no library here is known to read and that resemble no known one get the general
    answer, for NCCL never tells. Names without NCCL_ in front are never placebos here.
    """
    if not name.startswith("NCCL_") or name in SINCE or name in READ_BY_OTHERS:
        return None
    if name in _PLACEBOS:
        return _PLACEBOS[name]
    close = closest(name, SINCE, cutoff=_CLOSE)
    if close:
        return Explanation(
            name=name, why=_NOTHING, variable=close, instead=f"Did you mean {close}?"
        )
    return Explanation(name=name, why=_NOTHING, instead="Remove it.")


def unread(version: NcclVersion, name: str) -> Explanation | None:
    """As `placebo`, and also for names that other versions than `version` read."""
    if name not in SINCE or reads(version, name):
        return placebo(name)
    if version < SINCE[name]:
        why = f"NCCL reads it from {SINCE[name]} on, this is {version}"
    else:
        why = f"NCCL reads it before {GONE[name]} only, this is {version}"
    return Explanation(name=name, why=why, instead="Remove it, or change the version of NCCL.")


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What the harm of a setting depends on; None where it isn't known."""

    version: NcclVersion | None = None
    plugin: tuple[int, ...] | None = None
    """Version of aws-ofi-nccl."""
    network: Network | None = None


def harmful(name: str, value: str, surroundings: Surroundings | None = None) -> Explanation | None:
    """What is wrong with setting `name` to `value`, if that is known to do harm or nothing."""
    judge = _JUDGES.get(name)
    reason = judge(value, surroundings or Surroundings()) if judge else None
    return Explanation(name=name, why=reason[0], instead=reason[1]) if reason else None


_Reason = tuple[str, str] | None
_REMOVE = "Remove it."


def _interface(value: str, around: Surroundings) -> _Reason:
    """Source: aws-ofi-nccl documentation; NCCL, bootstrapNetInit in src/bootstrap.cc."""
    del around
    names = value.removeprefix("^").removeprefix("=").split(",")
    if value.startswith("^") or not any(name.lower().startswith("efa") for name in names):
        return None
    return (
        "EFA devices have no network interface called efa*: NCCL finds none and doesn't start",
        "Remove it, or name the Ethernet interface (en, eth0); EFA is chosen by its plugin.",
    )


def _fork_safe(value: str, around: Surroundings) -> _Reason:
    """Source: aws-ofi-nccl doc/efa-env-var.md."""
    del value, around
    return ("AWS says not to set it: registering memory slows down, forks may fail", _REMOVE)


def _efa_fork_safe(value: str, around: Surroundings) -> _Reason:
    del value, around
    return ("the EFA plugin sets it where it is needed", _REMOVE)


def _device_rdma(value: str, around: Surroundings) -> _Reason:
    """Source: aws-ofi-nccl doc/efa-env-var.md."""
    del value
    if around.plugin is None:
        return (
            "aws-ofi-nccl needs it before 1.7 only",
            "Remove it if the plugin is 1.7 or later and libfabric 1.18 or later.",
        )
    if around.plugin[:2] < (1, 7):
        return None
    return ("aws-ofi-nccl from 1.7 on decides by itself", _REMOVE)


def _provider(value: str, around: Surroundings) -> _Reason:
    del around
    if value != "efa":
        return None
    return ("the EFA plugin looks for the provider efa by itself", _REMOVE)


def _protocol(value: str, around: Surroundings) -> _Reason:
    words = value.lower().replace(";", ",").replace(":", ",").split(",")
    if "ll128" in words and (around.version is None or around.version < NcclVersion(2, 31)):
        return (
            "naming LL128 makes NCCL before 2.31 skip its safety check: data may be corrupted",
            "Leave LL128 to NCCL, which uses it where it is safe.",
        )
    if value.lower() == "simple" and around.network is Network.EFA:
        if around.plugin is not None and around.plugin[:2] < (1, 6):
            return None
        return ("aws-ofi-nccl from 1.6 on forces simple where that is needed", _REMOVE)
    return None


def _socket_threads(value: str, around: Surroundings) -> _Reason:
    del value
    if around.network in (None, Network.SOCKET):
        return None
    return ("it is for TCP, which carries no collective here", _REMOVE)


def _buffer(value: str, around: Surroundings) -> _Reason:
    del around
    if not value.isdecimal() or int(value) < 2**24:
        return None
    return (
        "it is GPU memory for each channel and peer, and AWS advises against raising it",
        "Let a study show that it gains anything.",
    )


def _threads(value: str, around: Surroundings) -> _Reason:
    del around
    if not value.isdecimal() or int(value) > 64:
        return None
    return ("64 is the least that NCCL takes, and costs rings bandwidth", "Try 256 or 512.")


def _p2p_disable(value: str, around: Surroundings) -> _Reason:
    del around
    if value in ("", "0"):
        return None
    return ("GPUs of a node no longer reach each other over NVLink or PCIe", _REMOVE)


_JUDGES: dict[str, Callable[[str, Surroundings], _Reason]] = {
    "NCCL_SOCKET_IFNAME": _interface,
    "RDMAV_FORK_SAFE": _fork_safe,
    "FI_EFA_FORK_SAFE": _efa_fork_safe,
    "FI_EFA_USE_DEVICE_RDMA": _device_rdma,
    "FI_PROVIDER": _provider,
    "NCCL_PROTO": _protocol,
    "NCCL_SOCKET_NTHREADS": _socket_threads,
    "NCCL_NSOCKS_PERTHREAD": _socket_threads,
    "NCCL_BUFFSIZE": _buffer,
    "NCCL_NTHREADS": _threads,
    "NCCL_P2P_DISABLE": _p2p_disable,
}

"""The variables that matter for tuning, as data: what each takes, when it is read, what it does.

Source, where an entry names none: NCCL v2.30.7, src/ and docs (env.rst); aws-ofi-nccl 1.21.1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from autotune.space.nccl.channels import channel_limit, parse_integer
from autotune.space.nccl.names import GONE, SINCE, reads
from autotune.space.nccl.parser import parse
from autotune.space.nccl.version import NcclVersion


class Kind(StrEnum):
    """What a value looks like."""

    INTEGER = "integer"
    BYTES = "bytes"
    WORDS = "words"
    """One of some words."""
    GRAMMAR = "grammar"
    """Lists of algorithms or protocols, see `parser`."""
    TEXT = "text"


class Read(StrEnum):
    """When a value is looked at: a change after that has no effect."""

    ONCE = "once"
    """When a process first needs it."""
    EACH_COMMUNICATOR = "each_communicator"


@dataclass(frozen=True, kw_only=True)
class Variable:
    """One environment variable."""

    name: str
    kind: Kind
    touches: tuple[str, ...] = ()
    """Algorithms, protocols or transports that it affects; empty is all of them."""
    read: Read = Read.ONCE
    minimum: int | None = None
    maximum: int | None = None
    multiple: int = 1
    words: tuple[str, ...] = ()
    limited_by_channels: bool = False
    """The largest value is the version's number of channels."""
    note: str = ""

    def highest(self, version: NcclVersion) -> int | None:
        return channel_limit(version) if self.limited_by_channels else self.maximum

    @property
    def since(self) -> NcclVersion:
        return SINCE[self.name]

    @property
    def gone(self) -> NcclVersion | None:
        """The version from which it isn't read any more."""
        return GONE.get(self.name)


_PATHS = ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS")
_PER_COMMUNICATOR = Read.EACH_COMMUNICATOR


def _integer(
    name: str, low: int | None, high: int | None, *touches: str, note: str = "", multiple: int = 1
) -> Variable:
    return Variable(
        name=name, kind=Kind.INTEGER, minimum=low, maximum=high, touches=touches, note=note,
        multiple=multiple,
    )  # fmt: skip


def _channels(name: str, low: int, *touches: str, note: str = "") -> Variable:
    return Variable(
        name=name, kind=Kind.INTEGER, minimum=low, limited_by_channels=True, touches=touches,
        note=note,
    )  # fmt: skip


def _bytes(name: str, *touches: str, note: str = "") -> Variable:
    return Variable(name=name, kind=Kind.BYTES, minimum=1, touches=touches, note=note)


VARIABLES: dict[str, Variable] = {
    variable.name: variable
    for variable in (
        Variable(
            name="NCCL_ALGO", kind=Kind.GRAMMAR, read=_PER_COMMUNICATOR,
            note="four grammars by version; forced algorithms must exist for every collective",
        ),
        Variable(
            name="NCCL_PROTO", kind=Kind.GRAMMAR, read=_PER_COMMUNICATOR,
            note="up to 2.30 naming LL128 skips the check of its safety",
        ),
        _channels("NCCL_MIN_CTAS", 1, note="overrides min_ctas of a communicator's config"),
        _channels("NCCL_MAX_CTAS", 1, note="overrides max_ctas of a communicator's config"),
        _channels("NCCL_MIN_NCHANNELS", 0, note="deprecated since 2.17 in favour of MIN_CTAS"),
        _channels("NCCL_MAX_NCHANNELS", 1, note="deprecated since 2.17 in favour of MAX_CTAS"),
        _channels("NCCL_NVLS_NCHANNELS", 1, "nvls", "nvls_tree"),
        _channels("NCCL_MIN_P2P_NCHANNELS", 1, "send", "recv"),
        _channels("NCCL_MAX_P2P_NCHANNELS", 1, "send", "recv"),
        _bytes("NCCL_BUFFSIZE", "simple", note="4 MiB, 8 MiB by the EFA plugin on P instances; "
               "memory grows with channels and peers"),
        _bytes("NCCL_LL_BUFFSIZE", "ll"),
        _bytes("NCCL_LL128_BUFFSIZE", "ll128"),
        _bytes("NCCL_P2P_NET_CHUNKSIZE", "send", "recv", note="not for all-reduce and its like"),
        _bytes("NCCL_P2P_PCI_CHUNKSIZE", "send", "recv"),
        _bytes("NCCL_P2P_NVL_CHUNKSIZE", "send", "recv"),
        _bytes("NCCL_NVLS_CHUNKSIZE", "nvls"),
        _bytes("NCCL_NVLSTREE_MAX_CHUNKSIZE", "nvls_tree"),
        _integer("NCCL_NTHREADS", 64, 512, "ring", multiple=32,
                 note="from 2.22 Tree and PAT always launch 640 threads"),
        _integer("NCCL_LL128_NTHREADS", 160, 640, "ll128", multiple=32),
        _integer("NCCL_SOCKET_NTHREADS", 1, 16, "socket"),
        _integer("NCCL_NSOCKS_PERTHREAD", 1, 64, "socket",
                 note="times NCCL_SOCKET_NTHREADS at most 64"),
        Variable(name="NCCL_SOCKET_IFNAME", kind=Kind.TEXT, touches=("bootstrap", "socket"),
                 note="prefixes of interfaces; no match ends the start"),
        Variable(name="NCCL_P2P_LEVEL", kind=Kind.WORDS, words=_PATHS, touches=("p2p",)),
        Variable(name="NCCL_NET_GDR_LEVEL", kind=Kind.WORDS, touches=("ib", "efa"),
                 words=tuple(path for path in _PATHS if path != "NVL")),
        _integer("NCCL_P2P_DISABLE", 0, 1, "p2p"),
        _integer("NCCL_CROSS_NIC", 0, 2, "ring", "tree", note="no effect with one NIC"),
        _integer("NCCL_NVLS_ENABLE", 0, 2, "nvls", "nvls_tree"),
        _integer("NCCL_PAT_ENABLE", 0, 2, "pat"),
        _integer("NCCL_CGA_CLUSTER_SIZE", 0, 8, note="Hopper and later"),
        _integer("NCCL_PXN_DISABLE", 0, 1, "ib", "efa"),
        _integer("NCCL_IGNORE_CPU_AFFINITY", 0, 1, "proxy"),
        _integer("NCCL_RUNTIME_CONNECT", 0, 1),
        Variable(name="NCCL_COLLNET_ENABLE", kind=Kind.INTEGER, minimum=0, maximum=1,
                 read=_PER_COMMUNICATOR, touches=("collnet_direct", "collnet_chain")),
        Variable(name="NCCL_CTA_POLICY", kind=Kind.TEXT,
                 note="EFFICIENCY is ignored beside NCCL_ALGO or NCCL_PROTO"),
        Variable(name="NCCL_NET", kind=Kind.TEXT, read=_PER_COMMUNICATOR),
        Variable(name="NCCL_TUNER_PLUGIN", kind=Kind.TEXT, note="on AWS it replaces OFI's tuner"),
    )
}  # fmt: skip


def problem(version: NcclVersion, name: str, value: str) -> str:
    """Why `name=value` doesn't do with NCCL `version` what it says; empty if it does.

    Names that this table doesn't have are judged by `reads` alone.
    """
    if not reads(version, name):
        return f"NCCL {version} doesn't read {name}"
    variable = VARIABLES.get(name)
    return _CHECKS[variable.kind](version, variable, value) if variable else ""


def _check_number(version: NcclVersion, variable: Variable, value: str) -> str:
    number = parse_integer(value)
    if number is None:
        return f"{variable.name}={value!r} is no whole number, and NCCL takes its default"
    low, high = variable.minimum, variable.highest(version)
    if (low is not None and number < low) or (high is not None and number > high):
        bounds = f"{low} to {high}" if high is not None else f"{low} and more"
        return f"{variable.name}={number} is outside {bounds} in NCCL {version}"
    if number % variable.multiple:
        return f"{variable.name}={number} has to be a multiple of {variable.multiple}"
    return ""


def _check_words(version: NcclVersion, variable: Variable, value: str) -> str:
    del version
    if value in variable.words or value.isdecimal():
        return ""
    return f"{variable.name}={value!r} is none of {', '.join(variable.words)}"


def _check_grammar(version: NcclVersion, variable: Variable, value: str) -> str:
    return parse(version, {variable.name: value}).error


def _check_text(version: NcclVersion, variable: Variable, value: str) -> str:
    del version, variable, value
    return ""


_CHECKS: dict[Kind, Callable[[NcclVersion, Variable, str], str]] = {
    Kind.INTEGER: _check_number,
    Kind.BYTES: _check_number,
    Kind.WORDS: _check_words,
    Kind.GRAMMAR: _check_grammar,
    Kind.TEXT: _check_text,
}

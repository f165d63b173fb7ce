"""What a log of NCCL says, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Communicator:
    """One communicator as one rank saw it; None is what the log doesn't say."""

    rank: int | None = None
    ranks: int | None = None
    nodes: int | None = None
    local_ranks: int | None = None
    identity: str = ""
    """The commId, equal on all ranks of a communicator; NCCL 2.16 and newer."""
    split: bool = False
    """Made by ncclCommSplit: it can't have more channels than its parent."""
    complete: bool = False
    """Its initialisation ended well."""
    coll_channels: int | None = None
    """Channels for collectives, after all limits."""
    collnet_channels: int | None = None
    nvls_channels: int | None = None
    p2p_channels: int | None = None
    p2p_channels_per_peer: int | None = None

    @property
    def channels(self) -> str:
        """The final channel line, as evidence."""
        counts = {
            "coll": self.coll_channels,
            "collnet": self.collnet_channels,
            "nvls": self.nvls_channels,
            "p2p": self.p2p_channels,
        }
        return ", ".join(f"{n} {name} channels" for name, n in counts.items() if n is not None)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The algorithm and protocol that NCCL chose for a collective of one size."""

    collective: str
    """As in AllReduce; empty before NCCL 2.23, which doesn't say."""
    size_bytes: int | None
    """As logged: since 2.24 count x type size, which for AllGather is what one rank sends."""
    algorithm: str
    """RING, TREE, NVLS_TREE, ... as NCCL 2.24 spells them; empty if a kernel was chosen."""
    protocol: str
    """LL, LL128 or SIMPLE."""
    channels: int | None
    kernel: str = ""
    """The symmetric kernel chosen instead of an algorithm; NCCL 2.31 and newer."""
    count: int = 1
    """Launches, or decisions, that the log has of it."""


@dataclass(frozen=True, kw_only=True)
class Enabled:
    """A row of the matrix that NCCL 2.24+ prints on rank 0 when an algorithm or protocol is set."""

    collective: str
    algorithms: tuple[str, ...]
    protocols: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A result of NCCL's topology search."""

    pattern: str
    """The name of NCCL's number for it, or the number where it is unknown here."""
    channels: int
    bandwidth_intra: float
    """GB/s per channel within a node."""
    bandwidth_inter: float
    """GB/s per channel between nodes."""
    type_intra: str
    """Slowest kind of path within a node, as in NVL or PHB."""
    type_inter: str
    cross_nic: int
    same_channels: bool


@dataclass(frozen=True, kw_only=True)
class Link:
    """Connections of one kind between ranks."""

    transport: str
    """As in P2P/CUMEM, SHM/direct/direct or NET/Libfabric."""
    gpu_direct: bool
    """The network card reads and writes the GPU's memory (GDRDMA)."""
    count: int


@dataclass(frozen=True, kw_only=True)
class NcclReadback:
    """What NCCL did, as one process or, once merged, several of them logged it.

    Empty texts and None mean that the log doesn't say.
    """

    nccl_version: str = ""
    cuda_version: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that NCCL says it has read, with the value it understood."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Variables whose value NCCL didn't use, with the line that says so."""
    injected: Mapping[str, str] = field(default_factory=dict)
    """Variables that a network plugin has added to the process's environment."""
    forced_simple: str = ""
    """The line by which a plugin forces the Simple protocol: others would corrupt data."""
    network: str = ""
    """Socket, IB, Libfabric, AWS Libfabric or another plugin's name."""
    fallback: str = ""
    """The line that shows that a network plugin was there, if NCCL has ended up on sockets."""
    plugin: str = ""
    """The network plugin's name and version, as in aws-ofi-nccl 1.18.0."""
    provider: str = ""
    """Libfabric's provider, as in efa."""
    devices: tuple[str, ...] = ()
    """Network devices of the internal transports, as in ens5 or mlx5_0."""
    nics: int | None = None
    """Network devices that the plugin has found."""
    socket_threads: int | None = None
    sockets_per_thread: int | None = None
    p2p_chunk_bytes: int | None = None
    nvls: bool | None = None
    """NVLink multicast is available on this process's device."""
    communicators: tuple[Communicator, ...] = ()
    choices: tuple[Choice, ...] = ()
    enabled: tuple[Enabled, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    links: tuple[Link, ...] = ()
    notes: tuple[str, ...] = ()
    """Lines on limits of channels and CTAs."""
    warnings: tuple[str, ...] = ()
    """The first of NCCL's WARN lines."""
    processes: int = 0
    messages: int = 0
    """NCCL's lines that were understood as such."""
    torn: int = 0
    """Messages left out because another process wrote into the middle of them."""
    dropped: int = 0
    """Entries left out because the log has more than are kept."""
    skipped_bytes: int = 0
    """Bytes in the middle of the file that weren't read, and characters cut off from long lines."""

    @property
    def truncated(self) -> bool:
        """Whether something may be missing: what isn't here may still have happened."""
        return self.skipped_bytes > 0 or self.dropped > 0 or self.torn > 0

    @property
    def world(self) -> Communicator | None:
        """The largest communicator; of several equal ones the first."""
        return max(self.communicators, key=lambda c: c.ranks or 0, default=None)

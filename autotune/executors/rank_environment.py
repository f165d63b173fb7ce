"""The environment of a rank: the user's own, without what another launcher left in it."""

from collections.abc import Mapping
from dataclasses import dataclass

_STALE_NAMES = {
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
    "ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT",
    # The ranks would meet at this address in place of the one that they tell each other.
    "NCCL_COMM_ID",
}  # fmt: skip
_STALE_PREFIXES = ("TORCHELASTIC_", "PET_", "AUTOTUNE_CHANNEL_", "AUTOTUNE_STORE_", "AUTOTUNE_LIVE")

LOOPBACK = "127.0.0.1"
ALWAYS = {"PYTHONSAFEPATH": "1"}
"""A file such as torch.py in the user's folder must not take the module's place."""

_LATE_NAMES = {"OMP_NUM_THREADS", "PYTHONFAULTHANDLER", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR"}
_CARRIED_PREFIXES = ("TORCH_", "PYTORCH_", "CUDA_DEVICE_MAX_CONNECTIONS")
_LATE_PREFIXES = ("NCCL_", "TORCH_NCCL_", "OFI_NCCL_", "FI_", "GLOO_")


@dataclass(frozen=True, kw_only=True)
class RankPlace:
    """Where one rank of a trial is, and whom it talks to."""

    rank: int
    ranks: int
    nodes: int = 1
    """Each of which has as many ranks."""
    address: str = LOOPBACK
    port: int
    """Of the rendezvous, on `address`."""
    channel_fd: int
    store_fd: int | None
    """A socket that listens there; rank 0 only."""
    live: bool = False
    """It is to wait for another trial after its own."""

    @property
    def local_ranks(self) -> int:
        return self.ranks // self.nodes

    @property
    def local_rank(self) -> int:
        return self.rank % self.local_ranks


def rank_environment(
    inherited: Mapping[str, str], candidate: Mapping[str, str], place: RankPlace, *, cores: int
) -> dict[str, str]:
    """`inherited`, cleaned, then the candidate's variables, then what no candidate may change.

    The `cores` are shared out as threads, because ranks that each take all of them fight for them.
    """
    environment = {name: value for name, value in inherited.items() if not _is_stale(name)}
    environment["OMP_NUM_THREADS"] = str(max(1, cores // place.local_ranks))
    environment |= ALWAYS
    # A crash in native code leaves the Python stack in the log.
    environment.setdefault("PYTHONFAULTHANDLER", "1")
    environment |= candidate
    environment |= {
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.ranks),
        "LOCAL_RANK": str(place.local_rank),
        "LOCAL_WORLD_SIZE": str(place.local_ranks),
        "MASTER_ADDR": place.address,
        "MASTER_PORT": str(place.port),
        "AUTOTUNE_CHANNEL_FD": str(place.channel_fd),
    }
    if place.store_fd is not None:
        environment["AUTOTUNE_STORE_FD"] = str(place.store_fd)
    if place.live:
        environment["AUTOTUNE_LIVE"] = "1"
    return environment


def carried_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What of a launcher's own `environment` goes with its trials to other machines.

    That is what communication and PyTorch read; paths and secrets stay where they are.
    """
    prefixes = (*_LATE_PREFIXES, *_CARRIED_PREFIXES)
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(prefixes) and not _is_stale(name)
    }


def start_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What of a rank's `environment` may be read while its interpreter starts and imports torch.

    The rest is set for each rank anew or read when communicators are made, so that ranks which
    differ in nothing else can be forked from one process.
    """
    return {
        name: value
        for name, value in environment.items()
        if not _is_stale(name) and name not in _LATE_NAMES and not name.startswith(_LATE_PREFIXES)
    }


def _is_stale(name: str) -> bool:
    return name in _STALE_NAMES or name.startswith(_STALE_PREFIXES)

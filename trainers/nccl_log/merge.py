"""Ranks put together, and what they disagree on."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune.trainers.nccl_log.readback import NcclReadback
from autotune.trainers.nccl_log.state import Bounded, State

MOST_COMMUNICATORS = 1 << 14
MOST_DIFFERENCES = 64
NOT_SEEN = "not seen"
_SINGLE: Mapping[str, Callable[[NcclReadback], str]] = {
    "NCCL version": lambda r: r.nccl_version,
    "CUDA version": lambda r: r.cuda_version,
    "network": lambda r: r.network,
    "network plugin": lambda r: r.plugin,
    "provider": lambda r: r.provider,
    "forced Simple protocol": lambda r: "yes" if r.forced_simple else "",
    "coll channels": lambda r: str(r.world.coll_channels or "") if r.world else "",
}
"""Compared between the ranks that say anything: some lines are rank 0's only."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Something that ranks don't agree on."""

    what: str
    """A variable's name, or a phrase as in `network`."""
    values: Mapping[str, tuple[str, ...]]
    """The ranks that have each value; the key is `not seen` for those that have none."""

    def __str__(self) -> str:
        parts = [f"{value!r} on {_few(ranks)}" for value, ranks in self.values.items()]
        return f"{self.what}: {', '.join(parts)}"


@dataclass(frozen=True, kw_only=True)
class Merged:
    """Several ranks together."""

    readback: NcclReadback
    """What any of them says; where they disagree, what the first one says."""
    differences: tuple[Difference, ...]


def merge(readbacks: Iterable[NcclReadback]) -> Merged:
    """All of `readbacks`, one for each rank, as one, with what they disagree on.

    A rank is named by its number in its largest communicator, else by its place in `readbacks`.
    """
    ranks = list(readbacks)
    if len(ranks) == 1:
        return Merged(readback=ranks[0], differences=())
    state = State(communicators=Bounded(MOST_COMMUNICATORS))
    for readback in ranks:
        state.absorb(readback)
    return Merged(readback=state.readback(), differences=_differences(ranks))


def _differences(ranks: Sequence[NcclReadback]) -> tuple[Difference, ...]:
    found = []
    for what, of in _SINGLE.items():
        found.append(_compared(what, [of(rank) for rank in ranks], ranks, absent=False))
    for name in sorted({name for rank in ranks for name in rank.environment}):
        # They say where and how the log is written.
        if not name.startswith("NCCL_DEBUG"):
            values = [rank.environment.get(name, "") for rank in ranks]
            found.append(_compared(name, values, ranks, absent=True))
    for name in sorted({name for rank in ranks for name in rank.injected}):
        values = [rank.injected.get(name, "") for rank in ranks]
        found.append(_compared(f"{name} added by a plugin", values, ranks, absent=True))
    return tuple(difference for difference in found if difference)[:MOST_DIFFERENCES]


def _compared(
    what: str, values: Sequence[str], ranks: Sequence[NcclReadback], *, absent: bool
) -> Difference | None:
    """A difference, if there is one; `absent`: a whole log that says nothing is one too."""
    groups: dict[str, list[str]] = {}
    for i, (value, rank) in enumerate(zip(values, ranks, strict=True)):
        if value or (absent and rank.messages and not rank.truncated):
            groups.setdefault(value or NOT_SEEN, []).append(_name(rank, i))
    if len(groups) < 2:
        return None
    return Difference(what=what, values={value: tuple(names) for value, names in groups.items()})


def _name(readback: NcclReadback, place: int) -> str:
    world = readback.world
    return f"rank {place if world is None or world.rank is None else world.rank}"


def _few(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"

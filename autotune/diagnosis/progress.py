"""How far each rank came, from what PyTorch's watchdog logs when a collective times out.

The rank that logs a timeout is the one that waits; the one to look at has completed less, or has
logged nothing at all.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

_WORK = re.compile(
    r"SeqNum=(\d{1,18}), OpType=(\w{1,40})(?:, NumelIn=(\d{1,18}), NumelOut=(\d{1,18}))?",
    re.IGNORECASE,
)
_COUNTS = re.compile(
    r"last enqueued (?:NCCL )?work: (-?\d{1,18}), last completed (?:NCCL )?work: (-?\d{1,18})",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What one rank's watchdog said."""

    rank: int
    sequence: int | None = None
    """Number of the collective that timed out."""
    call: str = ""
    """That collective, such as `ALLREDUCE of 1024 elements`."""
    enqueued: int | None = None
    """Number of the last collective that the rank has called."""
    completed: int | None = None
    """Number of the last collective that has completed on it."""

    def joined(self, later: "Progress") -> "Progress":
        """Both as one; what was said first counts."""
        return replace(
            later,
            **{name: value for name, value in vars(self).items() if value not in (None, "")},
        )


def progress(text: str, rank: int | None) -> Progress | None:
    """What `text`, a line of `rank`, says of its progress."""
    if rank is None:
        return None
    work = _WORK.search(text) if "OpType=" in text else None
    counts = _COUNTS.search(text) if "last " in text else None
    if work is None and counts is None:
        return None
    return Progress(
        rank=rank,
        sequence=int(work[1]) if work else None,
        call=_call(work) if work else "",
        enqueued=int(counts[1]) if counts else None,
        completed=int(counts[2]) if counts else None,
    )


def _call(work: re.Match[str]) -> str:
    return f"{work[2]} of {work[3]} elements" if work[3] else work[2]


def behind(said: Iterable[Progress], ranks: Collection[int]) -> tuple[int | None, str]:
    """The rank that the others waited for, if that can be told, and why it is that one.

    `ranks` are all that are known to exist.
    """
    by_rank: dict[int, Progress] = {}
    for one in said:
        by_rank[one.rank] = by_rank[one.rank].joined(one) if one.rank in by_rank else one
    waiters = sorted(by_rank)
    if not waiters:
        return None, ""
    first = by_rank[waiters[0]]
    what = f"collective {first.sequence} ({first.call})" if first.call else "a collective"
    silent = sorted(set(ranks) - set(waiters))
    if silent:
        return silent[0], f"it logged no timeout while {_named(waiters)} waited in {what}"
    known = list(by_rank.values())
    together = f"{_named(waiters)} waited in vain in {what}"
    return _least(known) or _different(known) or (None, together)


def _least(all_ranks: list[Progress]) -> tuple[int, str] | None:
    """The rank whose count is below that of all others."""
    for name in ("enqueued", "completed", "sequence"):
        counts = {p.rank: getattr(p, name) for p in all_ranks if getattr(p, name) is not None}
        low = [rank for rank, count in counts.items() if count == min(counts.values())]
        if len(counts) > 1 and len(low) == 1:
            word = "timed out in" if name == "sequence" else f"had {name}"
            most = max(counts.values())
            return low[0], f"it {word} collective {counts[low[0]]}, others {most}"
    return None


def _different(all_ranks: list[Progress]) -> tuple[int | None, str] | None:
    """The ranks were in different collectives."""
    calls = {p.rank: p.call for p in all_ranks if p.call}
    if len(set(calls.values())) < 2:
        return None
    shown = sorted(calls.items())
    other = next(item for item in shown if item[1] != shown[0][1])
    pair = " and ".join(f"rank {rank} {call}" for rank, call in (shown[0], other))
    return None, f"the ranks called different collectives: {pair}"


def _named(ranks: list[int], most: int = 4) -> str:
    shown = ", ".join(map(str, ranks[:most]))
    more = f" and {len(ranks) - most} more" if len(ranks) > most else ""
    return f"rank{'s' * (len(ranks) > 1)} {shown}{more}"

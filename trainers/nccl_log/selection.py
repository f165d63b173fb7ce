"""What a value of NCCL_ALGO or NCCL_PROTO allows, in the grammars of NCCL 2.5 to 2.31."""

from collections.abc import Mapping
from dataclasses import dataclass

COLLECTIVES = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


@dataclass(frozen=True)
class Selection:
    """A list of algorithms or protocols, or all but those."""

    names: frozenset[str]
    """As `plain` makes them."""
    excluded: bool

    def allows(self, name: str) -> bool:
        return (plain(name) in self.names) != self.excluded


def selections(value: str) -> Mapping[str, Selection]:
    """The selection for each collective, by its lower-case name; those left out are free.

    Up to 2.23 a value is one list for all. From 2.24 on it is `[function:]list` joined by `;`, of
    which only the first may leave out the function and is then for all.
    """
    result: dict[str, Selection] = {}
    for entry in value.split(";"):
        function, colon, names = entry.rpartition(":")
        if not names.strip():
            continue
        targets = [function.strip().casefold()] if colon else [c.casefold() for c in COLLECTIVES]
        for target in targets:
            result[target] = _selection(names.strip())
    return result


def plain(name: str) -> str:
    """NVLSTree, NVLS_TREE and nvlstree are one."""
    return name.replace("_", "").strip().casefold()


def _selection(names: str) -> Selection:
    excluded = names.startswith("^")
    elements = frozenset(plain(name) for name in names.removeprefix("^").split(","))
    return Selection(elements - {""}, excluded)

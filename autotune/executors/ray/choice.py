"""Which nodes of a cluster a study takes: as many as are alike. Pure."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotune.errors import FieldError, UserError
from autotune.executors.ray.kind import NodeKind
from autotune.model import Machine

Misfit = Callable[[Machine], str]
"""Why a machine isn't what was asked for, as a clause; empty if it is."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """What is known of a living node."""

    id: str
    address: str
    kind: NodeKind
    machine: Machine | None = None
    """None if it wasn't asked or hasn't answered."""
    fault: str = ""
    """Why it can't be used, as a clause."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The nodes that a study may take."""

    kind: NodeKind
    count: int
    """How many there are."""
    notices: tuple[str, ...] = ()
    """A sentence for each group that is left out, and why."""


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Nodes that neither Ray nor they themselves have a difference between."""

    kind: NodeKind
    instance: str
    nodes: tuple[Node, ...]
    why_not: str

    @property
    def size(self) -> tuple[int, int, int, str]:
        """The largest is taken; of equal ones that with more GPUs, then more CPUs."""
        return len(self.nodes), self.kind.gpus, self.kind.cpus, self.instance

    def __str__(self) -> str:
        name = f", {self.instance}" if self.instance else ""
        return f"{len(self.nodes)} with {self.kind}{name}"


def choose(found: Sequence[Node], count: int, misfit: Misfit) -> Choice:
    """The largest group with `count` nodes or more. Raises UserError if there is none."""
    groups = _groups(found, misfit)
    enough = [one for one in groups if len(one.nodes) >= count and not one.why_not]
    if not enough:
        raise _none(groups, count)
    taken = enough[0]
    others = [group for group in groups if group is not taken]
    # Ray would put a small bundle on a larger node, too.
    without = tuple(sorted(node.id for group in others for node in group.nodes))
    return Choice(
        kind=replace(taken.kind, without=without),
        count=len(taken.nodes),
        notices=tuple(_notice(group, taken) for group in others),
    )


def check_count(usable: int, living: int, count: int) -> None:
    """Raise FieldError if there aren't as many nodes."""
    if usable < count:
        raise FieldError(
            "--nodes",
            count,
            f"is more than this cluster has: {usable} node{'s' * (usable != 1)} to train on, "
            f"{living} in all",
            hint="start more nodes, or ask for fewer",
        )


def lanes_of(there: int, nodes: int, wanted: int | None) -> int:
    """How many trials of `nodes` nodes there are nodes for; `wanted`, if it is given.

    Raises FieldError if there are too few for that.
    """
    if wanted is None:
        return max(1, there // nodes)
    if there < nodes * wanted:
        raise FieldError(
            "--parallel-trials",
            wanted,
            f"needs {nodes * wanted} nodes, {nodes} for each, and this cluster has {there} that "
            "are alike",
            hint="start more nodes, or ask for fewer trials at once (auto: as many as fit)",
        )
    return wanted


def groups_taken(taken: int, room: int, nodes: int, there: int) -> str:
    """How many groups of `nodes` nodes are taken where as many as fit were asked for, and why."""
    at_once = f"{taken} trials run at once" if taken > 1 else "trials run one at a time"
    why = f"{_nodes(there)} that are alike, {_nodes(nodes)} for each trial"
    if taken < room:
        why += f", and those of {room - taken} more could not be had, since they weren't free"
    return f"{at_once}, on {taken} group{'s' * (taken != 1)} of nodes: the cluster has {why}"


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"


def _groups(found: Sequence[Node], misfit: Misfit) -> list[_Group]:
    """The largest first."""
    alike: dict[tuple[NodeKind, str, str], list[Node]] = defaultdict(list)
    for node in found:
        instance = node.machine.instance if node.machine else ""
        why_not = node.fault or (misfit(node.machine) if node.machine else "")
        alike[node.kind, instance, why_not].append(node)
    groups = [
        _Group(kind=kind, instance=instance, nodes=tuple(nodes), why_not=why_not)
        for (kind, instance, why_not), nodes in alike.items()
    ]
    return sorted(groups, key=lambda group: group.size, reverse=True)


def _none(groups: Sequence[_Group], count: int) -> UserError:
    there = "; ".join(
        f"{group} ({group.why_not})" if group.why_not else str(group) for group in groups
    )
    alike = "1 node is" if count == 1 else f"{count} nodes that are alike are"
    return UserError(
        f"--nodes: {alike} needed, and this cluster has: {there}",
        hint="results of different machines can't be compared; start as many of one kind",
    )


def _notice(group: _Group, taken: _Group) -> str:
    where = ", ".join(node.address for node in group.nodes)
    if group.why_not:
        return f"left out: {where}: {group.why_not}"
    return f"left out: {where}: {group}; the study takes the {taken}"

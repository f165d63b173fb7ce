"""Which nodes are slower than their peers, found before the first trial. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from autotune.executors.ray.probe import NodeProbe

SLOWER = 1.25
"""Times the other nodes' median: more than nodes of one kind differ by, with room for noise."""
LINK_SLOWER = 1.5
"""The same of transfers, which vary more."""
Transfers = Mapping[tuple[str, str], float]
"""Seconds by sender and receiver."""


Probes = Mapping[str, NodeProbe]
"""Of the nodes of one trial, by their names, in the order of their numbers."""


def findings(groups: Sequence[Probes]) -> list[str]:
    """A sentence for each node that is slower than the others or can't be reached.

    Data goes within a group; devices are compared with all others.
    """
    every = {name: one for probes in groups for name, one in probes.items()}
    faults = [f"{name}: the probe failed: {one.fault}" for name, one in every.items() if one.fault]
    if faults:
        # The others have waited for it in vain, and say so.
        more = f" (so did {len(faults) - 1} more)" if faults[1:] else ""
        return [f"{faults[0]}{more}; trials will meet the same"]
    took = {pair: one for probes in groups for pair, one in transfers(probes).items()}
    slow = slow_nodes({name: one.seconds for name, one in every.items()})
    return [*slow, *slow_links(took)]


def slow_nodes(seconds: Mapping[str, Sequence[float]]) -> list[str]:
    """A sentence for each node with a device that takes much longer than the other nodes' do.

    `seconds` has, for each node's name, what its devices took for the same work.
    """
    found = []
    for name, own in seconds.items():
        others = [one for other, times in seconds.items() if other != name for one in times]
        if not own or not others:
            continue
        worst = max(range(len(own)), key=lambda index: own[index])
        ratio = own[worst] / median(others)
        if ratio > SLOWER:
            which = f"device {worst} of {name}" if len(own) > 1 else name
            found.append(
                f"{which} takes {ratio:.1f} times as long as the other nodes to multiply matrices: "
                "every trial waits for it; look at its clocks and at what else runs there"
            )
    return found


def transfers(probes: Probes) -> dict[tuple[str, str], float]:
    """What went between the nodes, by their names."""
    names = list(probes)
    return {
        (names[source], name): took
        for name, one in probes.items()
        for source, took in one.received_s.items()
    }


def slow_links(took: Transfers) -> list[str]:
    """A sentence for each node whose transfers all are slow, and for each that alone is."""
    if len(took) == 2:
        return list(_slower_way(took))
    found, explained = [], set()
    for name in dict.fromkeys(name for pair in took for name in pair):
        others = [one for pair, one in took.items() if name not in pair]
        for end, what in ((0, "sends"), (1, "receives")):
            own = {pair: one for pair, one in took.items() if pair[end] == name}
            ratio = min(own.values()) / median(others) if own and others else 0.0
            if ratio > LINK_SLOWER:
                explained |= set(own)
                found.append(
                    f"what {name} {what} takes at least {ratio:.1f} times as long as what goes "
                    "between the other nodes: every trial waits for it; look at its network"
                )
    usual = median(took.values()) if took else 0.0
    for (source, target), one in took.items():
        if one > LINK_SLOWER * usual and (source, target) not in explained:
            found.append(
                f"from {source} to {target} data takes {one / usual:.1f} times as long as between "
                "most nodes; look at what lies between them"
            )
    return found


def _slower_way(took: Transfers) -> Iterator[str]:
    """Of two nodes, there is only the other direction to compare with."""
    (fast, fast_s), (slow, slow_s) = sorted(took.items(), key=lambda item: item[1])
    if slow_s > LINK_SLOWER * fast_s:
        yield (
            f"what {slow[0]} sends to {slow[1]} takes {slow_s / fast_s:.1f} times as long as what "
            f"{fast[0]} sends: every trial waits for it; look at the network of {slow[0]} first"
        )


def all_reduce(groups: Sequence[Probes]) -> list[str]:
    """How long the nodes of a trial take for one, as a sentence; nothing if that isn't known."""
    seconds = [
        one.all_reduce_s
        for probes in groups
        for one in probes.values()
        if one.all_reduce_s is not None
    ]
    if not seconds:
        return []
    return [f"an all-reduce of 4 MiB between the nodes takes {1000 * max(seconds):.1f} ms"]


def at_best(once: Mapping[str, NodeProbe], again: Mapping[str, NodeProbe]) -> dict[str, NodeProbe]:
    """For each node in both the shorter times: a busy moment doesn't come twice."""
    return {name: _better(own, again[name]) for name, own in once.items() if name in again}


def _better(one: NodeProbe, other: NodeProbe) -> NodeProbe:
    if one.fault or other.fault:
        return other if one.fault else one
    both = [took for took in (one.all_reduce_s, other.all_reduce_s) if took is not None]
    return NodeProbe(
        seconds=tuple(map(min, one.seconds, other.seconds)),
        all_reduce_s=min(both, default=None),
        received_s={
            source: min(took, other.received_s.get(source, took))
            for source, took in one.received_s.items()
        },
    )

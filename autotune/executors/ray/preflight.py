"""Which nodes are slower than their peers, found before the first trial. Pure."""

from collections.abc import Mapping, Sequence
from statistics import median

SLOWER = 1.25
"""Times the other nodes' median: more than nodes of one kind differ by, with room for noise."""


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


def at_best(
    once: Mapping[str, Sequence[float]], again: Mapping[str, Sequence[float]]
) -> dict[str, tuple[float, ...]]:
    """For each node in both the shorter one of each device's times."""
    return {
        name: tuple(map(min, own, again[name]))
        for name, own in once.items()
        if len(own) == len(again.get(name, ()))
    }

"""What has been read so far, bounded; it becomes an NcclReadback."""

from dataclasses import dataclass, field, replace
from typing import TypeVar

from autotune.trainers.nccl_log.readback import (
    Choice,
    Communicator,
    Enabled,
    Link,
    NcclReadback,
    Pattern,
)

K = TypeVar("K")
V = TypeVar("V")
LONGEST_TEXT = 400
"""Characters kept of a line or a value."""
MOST = 256
"""Distinct entries kept of each kind."""
MOST_LINES = 32
"""Warnings and notes kept."""


class Bounded(dict[K, V]):
    """A dict that takes no new key once it has `most`, and counts what it turned away."""

    def __init__(self, most: int = MOST) -> None:
        super().__init__()
        self.most = most
        self.dropped = 0

    def put(self, key: K, value: V) -> None:
        if key in self or len(self) < self.most:
            self[key] = value
        else:
            self.dropped += 1


class Counts(Bounded[K, int]):
    """How often each key came."""

    def add(self, key: K, count: int = 1) -> None:
        self.put(key, self.get(key, 0) + count)


@dataclass
class State:
    """The single values and the bounded collections of a readback."""

    single: NcclReadback = field(default_factory=NcclReadback)
    """Holds the fields that aren't collections."""
    environment: Bounded[str, str] = field(default_factory=Bounded)
    refused: Bounded[str, str] = field(default_factory=Bounded)
    injected: Bounded[str, str] = field(default_factory=Bounded)
    devices: Counts[str] = field(default_factory=Counts)
    choices: Counts[Choice] = field(default_factory=Counts)
    patterns: Counts[Pattern] = field(default_factory=Counts)
    links: Counts[tuple[str, bool]] = field(default_factory=Counts)
    enabled: Bounded[str, Enabled] = field(default_factory=Bounded)
    notes: Counts[str] = field(default_factory=lambda: Counts(MOST_LINES))
    warnings: Counts[str] = field(default_factory=lambda: Counts(MOST_LINES))
    communicators: Bounded[int, Communicator] = field(default_factory=Bounded)

    def dropped(self) -> int:
        collections = (value for value in vars(self).values() if isinstance(value, Bounded))
        return self.single.dropped + sum(c.dropped for c in collections)

    def add_communicator(self, communicator: Communicator) -> None:
        self.communicators.put(len(self.communicators), communicator)

    def readback(self) -> NcclReadback:
        return replace(
            self.single,
            environment=dict(self.environment),
            refused=dict(self.refused),
            injected=dict(self.injected),
            devices=tuple(self.devices),
            communicators=tuple(self.communicators.values()),
            choices=tuple(replace(choice, count=n) for choice, n in self.choices.items()),
            enabled=tuple(self.enabled.values()),
            patterns=tuple(self.patterns),
            links=tuple(
                Link(transport=transport, gpu_direct=direct, count=n)
                for (transport, direct), n in self.links.items()
            ),
            notes=tuple(self.notes),
            warnings=tuple(self.warnings),
            dropped=self.dropped(),
        )

    def absorb(self, other: NcclReadback) -> None:
        """Add what another process has logged; where both say something, the first counts."""
        for mine, its in (
            (self.environment, other.environment),
            (self.refused, other.refused),
            (self.injected, other.injected),
        ):
            for name, value in its.items():
                mine.put(name, mine.get(name, value))
        for row in other.enabled:
            self.enabled.put(row.collective, self.enabled.get(row.collective, row))
        self._absorb_counts(other)
        for communicator in other.communicators:
            self.add_communicator(communicator)
        self.single = _joined(self.single, other)

    def _absorb_counts(self, other: NcclReadback) -> None:
        for choice in other.choices:
            self.choices.add(replace(choice, count=1), choice.count)
        for link in other.links:
            self.links.add((link.transport, link.gpu_direct), link.count)
        for pattern in other.patterns:
            self.patterns.add(pattern)
        for text in other.warnings:
            self.warnings.add(text)
        for text in other.notes:
            self.notes.add(text)
        for device in other.devices:
            self.devices.add(device)


_FIRST_COUNTS = (
    "nccl_version",
    "cuda_version",
    "forced_simple",
    "fallback",
    "network",
    "plugin",
    "provider",
    "nics",
    "socket_threads",
    "sockets_per_thread",
    "p2p_chunk_bytes",
    "nvls",
)
_ADDED = ("processes", "messages", "torn", "dropped", "skipped_bytes")


def _joined(a: NcclReadback, b: NcclReadback) -> NcclReadback:
    values = {name: getattr(a, name) for name in _FIRST_COUNTS}
    for name, value in values.items():
        if value is None or value == "":
            values[name] = getattr(b, name)
    added = {name: getattr(a, name) + getattr(b, name) for name in _ADDED}
    return replace(a, **values, **added)

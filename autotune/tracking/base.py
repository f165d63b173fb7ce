"""What a tool is told of a study, and what it has to promise."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Opening:
    """A study begins, or goes on."""

    run: str
    texts: Mapping[str, str]
    """What it is about, by name."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A trial has ended."""

    number: int
    settings: Mapping[str, str]
    """All knobs of its candidate."""
    texts: Mapping[str, str]
    """Phase, outcome and its reason."""
    figures: Mapping[str, float]
    """What it measured, finite all; empty if it measured nothing."""


@dataclass(frozen=True, kw_only=True)
class Closing:
    """A study has ended, or was interrupted."""

    texts: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)


class Tracker(ABC):
    """One tool's record of one study.

    Called from one thread, in this order: `begin` once, `add` for each trial, `end` at most once,
    `close` once in any case. Whatever a method raises ends this record and nothing else. A study
    that is resumed begins again under the same name, and its record goes on.
    """

    @abstractmethod
    def begin(self, opening: Opening) -> None:
        """Open the record of a study."""

    @abstractmethod
    def add(self, entry: Entry) -> None:
        """Record a trial."""

    @abstractmethod
    def end(self, closing: Closing) -> None:
        """Record the answer."""

    @abstractmethod
    def close(self) -> None:
        """Have everything written."""

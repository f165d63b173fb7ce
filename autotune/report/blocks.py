"""A document's parts, without a form: Markdown and HTML are made of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Row = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """Plain text."""

    text: str
    important: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of plain text under their columns' names."""

    columns: Row
    rows: Sequence[Row]
    summary: str = ""
    """If given, the table may be folded away under it."""


@dataclass(frozen=True, kw_only=True)
class Commands:
    """Lines for a shell."""

    lines: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A drawing, for forms that can show one: the tables beside it say the same."""

    title: str
    draw: Callable[[], str]
    """Makes an SVG element."""


Block = Paragraph | Table | Commands | Picture


@dataclass(frozen=True, kw_only=True)
class Section:
    """A titled run of blocks."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A report as it is read."""

    title: str
    badge: str
    """What kind of figures these are, in a word or two."""
    warning: bool
    """Whether the badge is a warning."""
    lead: str
    """The answer in one sentence."""
    sections: Sequence[Section]

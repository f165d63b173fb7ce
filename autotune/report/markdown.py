"""A report as Markdown."""

import re
from collections.abc import Iterator

from autotune.report.blocks import Block, Commands, Document, Paragraph, Picture, Section, Table
from autotune.report.text import visible

# Inside a word an underscore is plain text, and settings are full of them.
_SPECIAL = re.compile(r"[\\`*\[\]{}<>#|~$!&]|(?<!\w)_|_(?!\w)")
_LIST = re.compile(r"^(\d*)([-+=.)])")
"""At a line's start: of a list, or a line under a heading."""


def to_markdown(document: Document) -> str:
    """`document` as Markdown, in which nothing from the store is markup."""
    lines = [f"# {_text(document.title)}", "", f"**{_text(document.badge)}**", ""]
    lines += [_paragraph(document.lead), ""]
    for section in document.sections:
        lines += _section(section)
    return "\n".join(lines)


def _section(section: Section) -> Iterator[str]:
    yield f"## {_text(section.title)}"
    yield ""
    for block in section.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph():
            yield f"**{_text(block.text)}**" if block.important else _paragraph(block.text)
        case Table():
            yield from _table(block)
        case Commands():
            # Indented, no text can end the block.
            yield from (f"    {_line(line)}" for line in block.lines)
        case Picture():
            return
    yield ""


def _table(table: Table) -> Iterator[str]:
    if table.summary:
        yield f"{_paragraph(table.summary)}:"
        yield ""
    yield _row(table.columns)
    yield _row_of_dashes(len(table.columns))
    yield from map(_row, table.rows)


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(_text(cell) or ' ' for cell in cells)} |"


def _row_of_dashes(count: int) -> str:
    return f"|{'---|' * count}"


def _paragraph(text: str) -> str:
    return _LIST.sub(r"\1\\\2", _text(text))


def _text(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", _line(text))


def _line(text: str) -> str:
    return " ".join(visible(text).split())

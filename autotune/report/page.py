"""A report as one HTML page: no script, and nothing that is loaded from elsewhere."""

import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import zip_longest

from autotune.report.blocks import Block, Commands, Document, Paragraph, Picture, Section, Table
from autotune.report.text import visible

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Even if something got through as markup, a browser would neither run nor fetch it."""
_NUMBER = re.compile(r"-|[-+]?[\d.,]+( %| [KMG]iB| m?s)?|\d+ [hm] \d\d [ms]")


def to_html(document: Document) -> str:
    """`document` as a page, in which nothing from the store is markup."""
    style = files("autotune.report").joinpath("page.css").read_text("utf-8")
    warning = " warning" if document.warning else ""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(document.title)}</title><style>{style}</style></head><body>",
        f'<header><p class="badge{warning}">{_text(document.badge)}</p>',
        f"<h1>{_text(document.title)}</h1>",
        f'<p class="lead">{_text(document.lead)}</p></header>',
        _contents(document.sections),
        "<main>",
        *(_section(number, section) for number, section in enumerate(document.sections)),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _contents(sections: Sequence[Section]) -> str:
    links = (f'<a href="#s{n}">{_text(section.title)}</a>' for n, section in enumerate(sections))
    return f"<nav>{' '.join(links)}</nav>"


def _section(number: int, section: Section) -> str:
    blocks = "\n".join(map(_block, section.blocks))
    return f'<section id="s{number}"><h2>{_text(section.title)}</h2>\n{blocks}</section>'


def _block(block: Block) -> str:
    match block:
        case Paragraph():
            kind = ' class="important"' if block.important else ""
            return f"<p{kind}>{_text(block.text)}</p>"
        case Table():
            return _table(block)
        case Commands():
            return f"<pre>{escape(chr(10).join(map(visible, block.lines)))}</pre>"
        case Picture():
            title = _text(block.title)
            return f"<figure><figcaption>{title}</figcaption>{block.draw()}</figure>"


def _table(table: Table) -> str:
    numbers = [_are_numbers(cells) for cells in zip(*table.rows, strict=True)]
    head = "".join(_cells("th", table.columns, numbers))
    body = "".join(f"<tr>{''.join(_cells('td', row, numbers))}</tr>" for row in table.rows)
    html = (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
    if not table.summary:
        return html
    return f"<details><summary>{_text(table.summary)}</summary>{html}</details>"


def _are_numbers(cells: Sequence[str]) -> bool:
    return all(map(_NUMBER.fullmatch, cells))


def _cells(tag: str, row: Sequence[str], numbers: Sequence[bool]) -> Iterator[str]:
    for cell, is_number in zip_longest(row, numbers, fillvalue=False):
        kind = ' class="number"' if is_number else ""
        yield f"<{tag}{kind}>{_text(str(cell))}</{tag}>"


def _text(text: str) -> str:
    return escape(visible(text))

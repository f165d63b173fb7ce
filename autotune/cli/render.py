"""How results look: tables for people, JSON for programs; both on stdout."""

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autotune.exporters.text import shown as shown  # noqa: PLC0414 - tables need it too
from autotune.model import encode
from autotune.report.text import changes as changes  # noqa: PLC0414 - tables need these too
from autotune.report.text import duration_text as duration_text  # noqa: PLC0414
from autotune.report.text import rate_text as rate_text  # noqa: PLC0414
from autotune.report.text import ratio_text as ratio_text  # noqa: PLC0414
from autotune.report.text import settings_text as settings_text  # noqa: PLC0414
from autotune.report.text import visible as visible  # noqa: PLC0414

Cell = str


_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a pair. It has no form in UTF-8; JSON can name it."""


class _Data(Console):
    """Prints what a store holds, which may be anything: texts so that they command no terminal."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(visible(o) if isinstance(o, str) else o for o in objects), **options)


def out() -> Console:
    """The console for data. Not a terminal: plain text, as wide as it needs to be."""
    console = _Data(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 200
    return console


def print_json(data: object) -> None:
    """`data` as one JSON document."""
    text = json.dumps(encode(data), indent=2, ensure_ascii=False)
    sys.stdout.write(_SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """A table whose last column takes what width is left."""
    table = Table(title=Text(title), title_justify="left", box=None, pad_edge=False, padding=(0, 2))
    for column in columns:
        # Text, never markup: a value in brackets is a value.
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    console = out()
    console.print(table)

"""`autotune diff`: how two saved configurations differ."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import Format, FormatOption
from autotune.cli.render import out, print_json, print_table
from autotune.cli.saved_file import read_saved
from autotune.exporters.difference import differences

_FILE = typer.Argument(metavar="FILE", help="A YAML file that 'autotune run' saved.")


def diff(
    one: Annotated[Path, _FILE], other: Annotated[Path, _FILE], format_: FormatOption = Format.TABLE
) -> None:
    """Show the fields in which two saved configurations differ."""
    found = differences(read_saved(one), read_saved(other))
    if format_ is Format.JSON:
        print_json({path: list(values) for path, values in found.items()})
    elif not found:
        out().print("They say the same.", markup=False)
    else:
        rows = [[path, a or "-", b or "-"] for path, (a, b) in found.items()]
        print_table("Differences", ["field", str(one), str(other)], rows)

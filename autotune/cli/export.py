"""`autotune export`: a saved configuration in another tool's form."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import output_path
from autotune.exporters import EXPORTERS, exporter
from autotune.exporters.document import read
from autotune.exporters.files import write_atomically


def export(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A YAML file that 'autotune run' saved.")
    ],
    to: Annotated[
        str, typer.Option("--to", metavar="FORM", help=f"One of: {', '.join(EXPORTERS)}.")
    ],
    output: Annotated[
        str | None, typer.Option("--output", metavar="FILE", help="Default: stdout.")
    ] = None,
) -> None:
    """Print a saved configuration in the form of another tool."""
    path = output_path(output)
    text = exporter(to).export(read(file))
    if path is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(path, text)

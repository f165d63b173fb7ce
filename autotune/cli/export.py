"""`autotune export`: a saved configuration in another tool's form."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.options import ForceOption, output_path
from autotune.cli.saved_file import read_saved
from autotune.errors import UserError
from autotune.exporters import EXPORTERS, Exporter, exporter
from autotune.exporters.files import write_atomically
from autotune.model import BestConfiguration, Conclusion


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
    force: ForceOption = False,
) -> None:
    """Print a saved configuration in the form of another tool.

    What the form has no place for is listed as a warning on stderr; see docs/exports.md.
    """
    path = output_path(output)
    wanted = exporter(to)
    best = read_saved(file)
    _check_confirmed(best, file, force=force)
    text = wanted.export(best)
    _warn(wanted, best)
    if path is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(path, text)


def _check_confirmed(best: BestConfiguration, file: Path, *, force: bool) -> None:
    if best.conclusion is not Conclusion.UNCONFIRMED:
        return
    what = f"{file}: is unconfirmed: never measured against the baseline a second time"
    if not force:
        raise UserError(
            what,
            hint="finish its study with `autotune resume`, or run one with a larger budget; "
            "--force exports it as it is",
        )
    typer.echo(f"forced: {what}", err=True)


def _warn(wanted: Exporter, best: BestConfiguration) -> None:
    for one in wanted.left_out(best):
        typer.echo(f"warning: --to {wanted.name} leaves to you: {one}", err=True)

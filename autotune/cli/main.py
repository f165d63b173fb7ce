"""The command line: what is run by `autotune`."""

import errno
import sys

import typer

from autotune import __version__
from autotune.cli import (
    catalogue,
    diagnose,
    diff,
    doctor,
    export,
    inspect,
    knobs,
    reporting,
    resume,
    run,
    verify,
)
from autotune.cli.render import visible
from autotune.errors import AutotuneError, UserError

EXIT_FAILED = 1
EXIT_USAGE = 2

app = typer.Typer(
    name="autotune",
    help="Find the fastest steady configuration for distributed PyTorch training on this machine.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("resume")(resume.resume)
app.command("runs")(inspect.runs)
app.command("show")(inspect.show)
app.command("report")(reporting.report)
app.command("best")(inspect.best)
app.command("export")(export.export)
app.command("verify")(verify.verify)
app.command("diff")(diff.diff)
app.command("knobs")(knobs.knobs)
app.command("doctor")(doctor.doctor)
app.command("diagnose")(diagnose.diagnose_logs)
app.command("instances")(catalogue.instances)
app.command("workloads")(catalogue.workloads)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"autotune {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_print_version, is_eager=True
    ),
) -> None:
    """Common options."""


def main() -> None:
    """Run the command line; errors made on purpose become a message and an exit code.

    Raises KeyboardInterrupt, which may come while this is imported: its caller ends on it.
    """
    try:
        try:
            app()
        finally:
            # Here, where a failure can still be told, and not when the interpreter has ended.
            _flush()
    except AutotuneError as error:
        sys.stderr.write(visible(f"error: {error}\n"))
        if error.hint:
            sys.stderr.write(visible(f"hint: {error.hint}\n"))
        sys.exit(EXIT_USAGE if isinstance(error, UserError) else EXIT_FAILED)
    except OSError as error:
        _give_up_stdout()
        # A reader of stdout that has gone (head, less) is told nothing.
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"error: the result can't be written to stdout: {error.strerror}\n")
        sys.exit(EXIT_FAILED)


def _flush() -> None:
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed")
    sys.stdout.flush()


def _give_up_stdout() -> None:
    """Have the interpreter not fail a second time on what is left to write."""
    sys.stdout = None

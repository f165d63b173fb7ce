"""`autotune diagnose`: why a job failed, from its logs."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.log_files import find, read
from autotune.cli.options import Format, FormatOption
from autotune.cli.render import out, print_json
from autotune.diagnosis import Diagnosis, diagnose
from autotune.model import encode
from autotune.model.secrets import Secrets

EXIT_NO_CAUSE = 3

LogsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="LOG…",
        help="Logs of the job: files, folders of them, or - for stdin. Those of all ranks, and of "
        "the kernel (dmesg), tell more than one.",
        show_default=False,
    ),
]


def diagnose_logs(logs: LogsArgument, format_: FormatOption = Format.TABLE) -> None:
    """Say why a job failed: which rank was first, what happened, and what to do."""
    files = find(logs)
    found = diagnose(read(files))
    if found is not None:
        found = replace(found, quote=Secrets.of(os.environ).redacted(found.quote))
    if format_ is Format.JSON:
        print_json(encode(found))
    elif found is None:
        out().print(f"No known failure in {len(files)} log{'s' * (len(files) != 1)}.")
        typer.echo(
            "hint: give the logs of all ranks and of the kernel; NCCL_DEBUG=WARN makes NCCL say "
            "more",
            err=True,
        )
    else:
        _print(found)
    if found is None or not found.is_root:
        raise typer.Exit(EXIT_NO_CAUSE)


def _print(found: Diagnosis) -> None:
    rank = "not told by the logs" if found.rank is None else str(found.rank)
    rows = {
        "outcome": found.outcome.value,
        "cause": found.cause,
        "rank": f"{rank}, on {found.host}" if found.host else rank,
        "victims": ", ".join(map(str, found.victims)),
        "line": f"{found.log}:{found.line}: {found.quote}",
        "next": found.action,
        "note": "" if found.is_root else "these logs show only victims, not who failed first",
    }
    console = out()
    for name, text in rows.items():
        if text:
            console.print(f"{name:<8} {text}", markup=False)

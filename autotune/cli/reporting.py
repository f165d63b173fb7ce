"""`autotune report`: a study as one document that a person shows to a colleague."""

import json
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.documents import status
from autotune.cli.options import StorageOption
from autotune.compose import Recalled, find_study, recall
from autotune.errors import ABSENT, AutotuneError, FieldError, UnreadableError
from autotune.exporters.files import check_writable, file_path, write_atomically
from autotune.model import BestConfiguration, Study, encode
from autotune.model.secrets import redacted
from autotune.report.build import build_report
from autotune.report.canvas import check_drawing
from autotune.report.content import Report
from autotune.report.document import document
from autotune.report.markdown import to_markdown
from autotune.report.page import to_html
from autotune.report.text import visible
from autotune.storage import Store, default_url, open_store


class Form(StrEnum):
    """What a report can be written as."""

    HTML = "html"
    MD = "md"
    JSON = "json"
    OPTUNA = "optuna"


_WRITERS: Mapping[Form, Callable[[Report], str]] = {
    Form.HTML: lambda found: to_html(document(found)),
    Form.MD: lambda found: to_markdown(document(found)),
    Form.JSON: lambda found: json.dumps(encode(found), indent=2) + "\n",
}
_URL_HINT = "such as --output sqlite:///optuna.db"


def report(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run id, the beginning of one, or 'latest'."),
    ],
    to: Annotated[
        Form,
        typer.Option(
            "--to",
            help="One HTML page with figures that needs no network (extra 'report'), "
            "Markdown, JSON, or a study in an Optuna storage, for optuna-dashboard.",
        ),
    ] = Form.HTML,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="FILE|URL",
            help="Where it is written. Default: report-RUN.html; stdout for md and json. "
            "For optuna a URL such as sqlite:///FILE.",
        ),
    ] = None,
    storage: StorageOption = None,
) -> None:
    """Write what a run found as one file that can be shown to a colleague.

    The answer with its evidence, every trial, what each knob was worth and how sure that is, what
    was skipped and what failed, step times, memory, versions, and how to run it again.
    """
    if to is Form.OPTUNA:
        _to_optuna(run, output, storage)
        return
    path = None if output is None else file_path(output, "--output")
    if to is Form.HTML:
        check_drawing()
    if path is not None:
        check_writable(path)
    found = _report(run, storage)
    if path is None and to is Form.HTML:
        path = Path(f"report-{found.run}.html")
    _write(_WRITERS[to](found), path)


def _to_optuna(run: str, url: str | None, storage: str | None) -> None:
    # Optuna takes a while to import, which no other command needs.
    from autotune.report.optuna_storage import check_url, write_optuna  # noqa: PLC0415

    if url is None:
        raise FieldError("--output", ABSENT, "has to be given with --to optuna", hint=_URL_HINT)
    check_url(url)
    with open_store(storage or default_url()) as store:
        study = find_study(store, run)
        trials = store.trials(study.run_id)
    name = write_optuna(study, trials, url)
    typer.echo(name)
    typer.echo(f"open it with: optuna-dashboard {shlex.quote(redacted(url))}", err=True)


def _report(run: str, storage: str | None) -> Report:
    broken: list[UnreadableError] = []
    with open_store(storage or default_url()) as store:
        study = find_study(store, run)
        trials = store.trials(study.run_id, broken.append)
        lease = store.leases(broken.append).get(study.run_id)
        recalled, unknown = _recalled(study, store)
        saved = _saved(study, store)
    for error in broken:
        typer.echo(visible(f"unreadable: {error}\nhint: {error.hint}"), err=True)
    return build_report(
        study,
        trials,
        status=status(study, lease),
        end=recalled.end if recalled else None,
        space=recalled.space if recalled else None,
        unknown=unknown,
        saved=saved,
    )


def _recalled(study: Study, store: Store) -> tuple[Recalled | None, str]:
    """The study's replay, or why there is none."""
    try:
        return recall(study, store), ""
    except AutotuneError as error:
        return None, str(error).replace("--instance: ", "")
    except (ArithmeticError, LookupError, ValueError) as error:
        # A database may hold figures that no trial measures.
        return None, f"its stored trials make no sense ({error!r})"


def _saved(study: Study, store: Store) -> BestConfiguration | None:
    """The answer that the study itself saved, if it is still the one for its target."""
    with suppress(UnreadableError):
        best = store.best(study.spec.target)
        return best if best and best.run_id == study.run_id else None
    return None


def _write(text: str, path: Path | None) -> None:
    if path is None:
        typer.echo(text, nl=False)
        return
    write_atomically(path, text)
    typer.echo(str(path))

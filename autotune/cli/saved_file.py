"""The file that `autotune diff`, `export` and `verify` are given, or the run that it was not."""

import re
import shlex
from pathlib import Path

from autotune.compose import find_study
from autotune.errors import AutotuneError, UserError
from autotune.exporters.document import read
from autotune.model import BestConfiguration, Study
from autotune.report.reproduce import best_command
from autotune.storage import default_url, open_store
from autotune.storage.folder import data_folder

_LIKE_A_RUN = re.compile(r"latest|\d{8}-\d{6}(-[0-9a-f]{0,4})?")
_ANY = "autotune best --instance … --workload …"


def read_saved(path: Path) -> BestConfiguration:
    """The configuration in the file at `path`. Raises UserError, which tells a run from a file."""
    try:
        return read(path)
    except UserError as error:
        hint = "" if path.exists() else _hint(str(path))
        if not hint:
            raise
        raise UserError(str(error), hint=hint) from None


def _hint(name: str) -> str:
    """What gives a file, if `name` is a run or looks like one; else empty."""
    found = _answered(name)
    if found is None:
        is_like_one = _LIKE_A_RUN.fullmatch(name)
        return f"a run is no file; its answer becomes one by: {_ANY} > FILE" if is_like_one else ""
    study, best = found
    shown = f"autotune show {study.run_id}"
    if study.spec.target.is_simulated:
        return f"that is a simulated run, of which nothing is saved; look at it with: {shown}"
    if best is None or best.run_id != study.run_id:
        return f"that is a run, whose answer isn't the one that is kept; look at it with: {shown}"
    path = shlex.quote(f"{study.run_id}.yaml")
    return f"that is a run; its answer becomes a file by: {best_command(study)} > {path}"


def _answered(name: str) -> tuple[Study, BestConfiguration | None] | None:
    """The run in the usual store, with the answer for its target; None if it isn't there."""
    if Path(name).name != name:
        return None
    try:
        if not (data_folder() / "autotune.db").is_file():
            return None  # asking makes no store
        with open_store(default_url()) as store:
            study = find_study(store, name)
            return study, store.best(study.spec.target)
    except AutotuneError:
        return None

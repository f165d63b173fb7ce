"""The user's own data folder, and the database in it that is used when none is named."""

import os
import pwd
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from autotune.errors import FieldError, UserError

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def data_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The folder for the database and the runs' logs, made if it isn't there, private to the user.

    $AUTOTUNE_HOME, else $XDG_DATA_HOME/autotune, else ~/.local/share/autotune. Raises UserError if
    it can't be made.
    """
    folder = _choose(os.environ if environ is None else environ)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the data folder {str(folder)!r} can't be made: {error.strerror}",
            hint="set AUTOTUNE_HOME to a folder that you may write to",
        ) from error
    return folder


def default_url(environ: Mapping[str, str] | None = None) -> str:
    """The URL of autotune.db in the data folder, for `open_store`."""
    path = str(data_folder(environ) / "autotune.db")
    return "sqlite:///" + path.replace("%", "%25").replace("?", "%3F")


def run_folder(run_id: str) -> Path:
    """Where the logs of a run are, not made here.

    Raises FieldError for a run id that is no plain name: a database may hold anything.
    """
    return data_folder() / "runs" / check_run_id(run_id)


def check_run_id(run_id: str) -> str:
    """`run_id`, if it is a plain name. Raises FieldError."""
    if not _RUN_ID.fullmatch(run_id):
        raise FieldError("RUN", run_id, "is not a run id that autotune gives")
    return run_id


def _choose(environ: Mapping[str, str]) -> Path:
    own = environ.get("AUTOTUNE_HOME")
    if own:
        try:
            return Path(own).absolute()
        except OSError as error:
            raise UserError(
                f"AUTOTUNE_HOME: {own!r} is relative to a folder that is gone",
                hint="set it to an absolute path",
            ) from error
    shared = environ.get("XDG_DATA_HOME", "")
    # The XDG specification has relative paths ignored.
    if Path(shared).is_absolute():
        return Path(shared) / "autotune"
    return home_folder(environ) / ".local" / "share" / "autotune"


def home_folder(environ: Mapping[str, str]) -> Path:
    """$HOME, else the home in the user's account. A relative one would move with the cwd.

    Raises UserError if there is neither.
    """
    candidates = [environ.get("HOME", "")]
    with suppress(KeyError):  # a container's user may have no entry
        candidates.append(pwd.getpwuid(os.getuid()).pw_dir)
    for home in map(Path, candidates):
        if home.is_absolute():
            return home
    raise UserError(
        "there is no home folder: HOME isn't set to an absolute path, and the account has none",
        hint="set AUTOTUNE_HOME to a folder that you may write to",
    )

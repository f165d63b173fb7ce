"""The user's own data folder, and the database in it that is used when none is named."""

import os
from collections.abc import Mapping
from pathlib import Path

from autotune.errors import UserError


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


def _choose(environ: Mapping[str, str]) -> Path:
    own = environ.get("AUTOTUNE_HOME")
    if own:
        return Path(own).absolute()
    shared = environ.get("XDG_DATA_HOME", "")
    # The XDG specification has relative paths ignored.
    if Path(shared).is_absolute():
        return Path(shared) / "autotune"
    try:
        home = environ.get("HOME") or Path("~").expanduser()
    except RuntimeError as error:
        raise UserError(
            "there is no data folder: HOME isn't set, and the user has no home",
            hint="set AUTOTUNE_HOME to a folder that you may write to",
        ) from error
    return Path(home).absolute() / ".local" / "share" / "autotune"

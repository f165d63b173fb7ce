"""Which line of the user's own code an error comes from."""

import os
import sysconfig
import traceback
from functools import cache
from pathlib import Path

import autotune


def user_line(error: BaseException) -> str:
    """`train.py:31, in loss`, the innermost line that neither a library nor autotune owns.

    Empty if there is none.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_users(frame.filename)]
    if not own:
        return ""
    last = own[-1]
    return f"{os.path.relpath(last.filename)}:{last.lineno}, in {last.name}"


def is_users(filename: str) -> bool:
    """Whether a traceback's file is the user's."""
    if filename.startswith("<"):
        return False
    path = Path(filename).resolve()
    return not any(path.is_relative_to(folder) for folder in _libraries())


@cache
def _libraries() -> list[Path]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    installed = [Path(sysconfig.get_path(name)) for name in names]
    # In a checkout the trainers lie beside the package.
    own = [Path(autotune.__file__).parent, Path(__file__).parent]
    return [path.resolve() for path in (*installed, *own)]

"""Results that a store couldn't take, in a file of JSON lines until it can."""

import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from autotune.errors import FieldError, UserError
from autotune.model import Trial, decode, encode
from autotune.storage.ranges import check_ranges

_LONGEST_LINE = 16 * 2**20


def write_aside(path: Path, trials: Sequence[Trial]) -> None:
    """Have the file at `path` hold exactly these trials; without any it goes.

    Raises OSError, and then the file is as it was.
    """
    if not trials:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        _create(temporary, "".join(json.dumps(encode(trial)) + "\n" for trial in trials))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_aside(path: Path, run_id: str) -> list[Trial]:
    """The trials of `run_id` in the file, in their order; none without a file.

    Raises UserError that names the line if it is not what `write_aside` writes.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return [_trial(line, f"{path}:{number}", run_id) for number, line in enumerate(file, 1)]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeError) as error:
        raise UserError(f"{path}: can't be read: {error}") from None


def _trial(line: str, place: str, run_id: str) -> Trial:
    if len(line) > _LONGEST_LINE:
        raise UserError(f"{place}: is longer than {_LONGEST_LINE} characters")
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        raise UserError(f"{place}: is not JSON") from None
    try:
        trial = decode(Trial, data)
        check_ranges(trial, "trial")
    except FieldError as error:
        raise UserError(f"{place}: {error}") from None
    if trial.run_id != run_id:
        raise FieldError(f"{place}: run_id", trial.run_id, f"is not the run {run_id!r}")
    return trial


def _create(path: Path, text: str) -> None:
    """Make a file that only this user reads, its content on the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())

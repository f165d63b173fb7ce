"""The user's own files that a job needs: the folder that autotune was started in."""

import os
from collections.abc import Iterator
from pathlib import Path

from autotune.errors import UserError

MOST_FILES = 2_000
MOST_BYTES = 200 * 2**20
_LEFT_OUT = {"__pycache__", "node_modules", "best", "runs"}


def work_files(folder: Path) -> dict[str, bytes]:
    """What is in `folder`, by relative path, without hidden files and virtual environments.

    Raises UserError for more than a job should be sent.
    """
    found: dict[str, bytes] = {}
    size = 0
    for path in _walk(folder):
        size += path.stat().st_size
        if size > MOST_BYTES or len(found) >= MOST_FILES:
            raise UserError(
                f"{str(folder)!r} holds more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB, "
                "and all of it would be sent with the job",
                hint="run autotune in a folder that holds the workload's code and nothing else; "
                "data belongs in S3 or in the image",
            )
        found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if _goes_along(Path(place) / name))
        for name in sorted(names):
            path = Path(place) / name
            if not name.startswith(".") and path.suffix != ".pyc" and path.is_file():
                yield path


def _goes_along(folder: Path) -> bool:
    is_environment = (folder / "pyvenv.cfg").exists()
    return not (folder.name.startswith(".") or folder.name in _LEFT_OUT or is_environment)

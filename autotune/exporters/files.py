"""Files of the user's, written whole or not at all."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from autotune.errors import FieldError, UserError


def file_path(text: str, field: str) -> Path:
    """The file that a person named. Raises FieldError for a folder, also one that isn't there."""
    path = Path(text)
    if os.path.basename(text) in ("", ".", "..") or path.is_dir():
        raise FieldError(field, text, "is a folder", hint=f"name a file in it: {path / 'NAME'}")
    return path


def write_atomically(path: Path, text: str) -> None:
    """Make `text` the content of the file at `path`, as UTF-8.

    A reader sees the old content or the new, never a part, also when this process is killed or the
    machine stops. Folders are made as needed. Raises UserError, and then nothing is left behind.
    """
    with _user_errors(path), _aside(path, text, keep=True) as (target, temporary):
        temporary.replace(target)
        _sync_folder(target.parent)


def check_writable(path: Path) -> None:
    """Raises the UserError that `write_atomically` would, and changes nothing."""
    with _user_errors(path), _aside(path, "\n", keep=False):
        pass


@contextmanager
def _user_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as error:
        bad = error.object[error.start : error.end]
        raise UserError(f"{path}: can't be written: {bad!r} has no form in UTF-8") from None
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: can't be written: {_cause(error)}",
            hint="name a file in a folder that you may write to",
        ) from None


@contextmanager
def _aside(path: Path, text: str, *, keep: bool) -> Iterator[tuple[Path, Path]]:
    """The real target, and a file beside it that holds `text` and is gone at the end."""
    content = text.encode("utf-8")
    with _folder(path, keep=keep) as target:
        temporary = target.with_name(f".autotune-{secrets.token_hex(8)}.tmp")
        try:
            _create(temporary, content)
            yield target, temporary
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def _folder(path: Path, *, keep: bool) -> Iterator[Path]:
    """The target behind links, its folder there; what was made for it goes unless all went well."""
    _refuse_dangling(path)
    target = Path(os.path.realpath(path))
    made: list[Path] = []
    ended_well = False
    try:
        _make_folders(target.parent, made)
        _refuse_special(target)
        yield target
        ended_well = True
    finally:
        if not (keep and ended_well):
            for folder in reversed(made):
                with suppress(OSError):
                    folder.rmdir()


def _refuse_dangling(path: Path) -> None:
    """Folders are made where a person named them, never where a link happens to point."""
    for part in (path, *path.parents):
        if part.is_symlink() and not part.exists():
            end = Path(os.path.realpath(part))
            if part != path or not end.parent.is_dir():
                raise ValueError(f"{str(part)!r} is a link to {str(end)!r}, which doesn't exist")


def _make_folders(folder: Path, made: list[Path]) -> None:
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        with suppress(FileExistsError):  # made by somebody else meanwhile
            parent.mkdir()
            made.append(parent)


def _refuse_special(target: Path) -> None:
    """Renaming over a device such as /dev/null would destroy it."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(mode := target.lstat().st_mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            raise ValueError(f"it is {kind}")


def _create(path: Path, content: bytes) -> None:
    """Make a new file, its mode 0666 less the umask, its content on the disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some file systems can't; the rename itself has happened
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _cause(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)

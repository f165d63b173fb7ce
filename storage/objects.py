"""Small objects by name, in a folder or under a prefix of an S3 bucket."""

import errno
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from autotune.errors import FieldError, OutageError, UnreadableError

OPTION = "--mirror"
_FORMS = ("s3://BUCKET/PREFIX", "file:///FOLDER")
BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""Source: Amazon S3 User Guide, general purpose bucket naming rules."""
_PROBE = "probe"
_Publish = Callable[[Path, Path], object]
"""Has a finished file appear under its name."""


class Objects(ABC):
    """Objects under one place. Each appears whole, or not at all.

    Names are relative paths with forward slashes. What goes wrong is a StorageError, an OutageError
    if the same may work later.
    """

    place: str
    """As messages name it."""

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Have the object hold this, whatever it held before."""

    @abstractmethod
    def put_new(self, name: str, content: bytes) -> bool:
        """Make the object, unless there is one of this name: whether it was made."""

    @abstractmethod
    def get(self, name: str, *, most: int | None = None) -> bytes | None:
        """What the object holds; None if there is none.

        Raises UnreadableError, with nothing read, if that is more than `most` bytes.
        """

    @abstractmethod
    def names(self, folder: str, after: str = "") -> list[str]:
        """The names directly in `folder`, without it, that sort after `after`; sorted."""

    def check_writable(self) -> None:
        """Raise StorageError if no object can be made here.

        It writes an empty one, called `probe`, and may leave it: not everybody who may write may
        remove, too.
        """
        self.put(_PROBE, b"")

    @abstractmethod
    def within(self, folder: str) -> "Objects":
        """Those under `folder`."""


class FolderObjects(Objects):
    """Files of a folder, which need not be there yet; readable for this user only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.place = str(folder)

    def put(self, name: str, content: bytes) -> None:
        self._write(name, content, os.replace)

    def put_new(self, name: str, content: bytes) -> bool:
        try:
            self._write(name, content, os.link)
        except FileExistsError:
            return False
        return True

    def get(self, name: str, *, most: int | None = None) -> bytes | None:
        path = self._folder / name
        try:
            with path.open("rb") as file:
                check_size(str(path), os.fstat(file.fileno()).st_size, most)
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _outage(path, error) from error

    def names(self, folder: str, after: str = "") -> list[str]:
        path = self._folder / folder
        try:
            found = [entry.name for entry in os.scandir(path) if entry.is_file()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _outage(path, error) from error
        return sorted(name for name in found if name > after and not name.startswith("."))

    def check_writable(self) -> None:
        super().check_writable()
        with suppress(OSError):
            (self._folder / _PROBE).unlink()

    def within(self, folder: str) -> "FolderObjects":
        return FolderObjects(self._folder / folder)

    def _write(self, name: str, content: bytes, publish: _Publish) -> None:
        """Raises FileExistsError if `publish` does."""
        path = self._folder / name
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            _create(temporary, content)
            publish(temporary, path)
        except FileExistsError:
            raise
        except OSError as error:
            raise _outage(path, error) from error
        finally:
            with suppress(OSError):
                temporary.unlink()


def check_size(place: str, size: int, most: int | None) -> None:
    """Raise UnreadableError for an object of so many bytes that may have `most`."""
    if most is not None and size > most:
        raise UnreadableError(f"{place}: has {size} bytes, and may have {most}", key=place)


def open_objects(url: str, field: str = OPTION) -> Objects:
    """The objects under `url`; nothing is asked of it yet.

    Raises FieldError that names `field` for what is no such URL, and UserError without boto3.
    """
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise FieldError(field, url, "has more than a place", alternatives=_FORMS)
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return FolderObjects(Path(unquote(parts.path)))
    if parts.scheme == "s3" and BUCKET_NAME.fullmatch(parts.netloc):
        from autotune.storage.s3 import S3Objects  # noqa: PLC0415 - boto3 is in an extra

        return S3Objects(parts.netloc, parts.path.strip("/"))
    raise FieldError(field, url, "is no place that objects can be kept in", alternatives=_FORMS)


def _create(path: Path, content: bytes) -> None:
    """A file with a new name that only this user reads, its content on the disk."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, "is a file", str(path.parent)) from error
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _outage(path: Path, error: OSError) -> OutageError:
    return OutageError(f"{path}: {error.strerror}")

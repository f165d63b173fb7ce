"""What changes of a run in a store, as numbered objects of JSON: the form of a mirror.

records/00000001.json   {"format": 1, "number": 1, "kind": "study", "record": {…}}
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from autotune.errors import FieldError, UnreadableError
from autotune.model import (
    BestConfiguration,
    Conclusion,
    Study,
    StudyStatus,
    Trial,
    decode,
    encode,
)
from autotune.storage.objects import Objects
from autotune.storage.ranges import check_ranges
from autotune.storage.records import as_stored

FORMAT = 1
FOLDER = "records"
_NAME = re.compile(r"(\d{8})\.json")
_LARGEST = 16 * 2**20


@dataclass(frozen=True, kw_only=True)
class Status:
    """Where a study stands from then on."""

    run_id: str
    status: StudyStatus
    conclusion: Conclusion | None = None
    reason: str = ""

    @classmethod
    def of(cls, study: Study) -> "Status":
        return cls(
            run_id=study.run_id,
            status=study.status,
            conclusion=study.conclusion,
            reason=study.reason,
        )


Record = Study | Trial | BestConfiguration | Status
_KINDS: Mapping[str, type[Record]] = {
    "study": Study, "trial": Trial, "best": BestConfiguration, "status": Status,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change; `number` is its place among those of its run, from 1."""

    number: int
    record: Record

    @property
    def name(self) -> str:
        """Of the object, so that names sort as numbers do."""
        return f"{FOLDER}/{self.number:08}.json"

    @property
    def kind(self) -> str:
        return next(name for name, kind in _KINDS.items() if isinstance(self.record, kind))

    def to_bytes(self) -> bytes:
        record = self.record if isinstance(self.record, Status) else as_stored(self.record)
        data = {
            "format": FORMAT,
            "number": self.number,
            "kind": self.kind,
            "record": encode(record),
        }
        return json.dumps(data).encode()


@dataclass(frozen=True, kw_only=True)
class Position:
    """How far the changes of a run were read."""

    last: int = 0
    """Number of the last one."""
    trials: int = 0
    """How many of them are trials."""

    def after(self, change: Change) -> "Position":
        """With the next change. Raises FieldError for one that no run has there."""
        record = change.record
        if isinstance(record, Study) != (self.last == 0):
            raise FieldError(
                "kind", change.kind, "has to be study in the first change, and in no other"
            )
        if not isinstance(record, Trial):
            return replace(self, last=change.number)
        if record.number != self.trials:
            raise FieldError(
                "record.number", record.number,
                f"has to be {self.trials}: a run's trials come once each, in their order from 0",
            )  # fmt: skip
        return replace(self, last=change.number, trials=self.trials + 1)


def read_changes(objects: Objects, run_id: str, after: Position = Position()) -> Iterator[Change]:
    """The changes of `run_id` in their order, from the one that follows `after`.

    Raises UnreadableError for one that is missing before others, that isn't what `to_bytes` makes,
    or that no run has in its place, and StorageError as `Objects` do.
    """
    for name in objects.names(FOLDER, f"{after.last:08}.json"):
        found = _NAME.fullmatch(name)
        if found is None:
            continue  # whatever it is, it isn't ours
        number = after.last + 1
        path = f"{FOLDER}/{number:08}.json"
        content = objects.get(path, most=_LARGEST) if int(found[1]) == number else None
        if content is None:
            raise _unreadable(objects, path, "is missing, and later ones are there")
        try:
            change = _change(_json(content), number, run_id)
            after = after.after(change)
        except FieldError as error:
            raise _unreadable(objects, path, str(error)) from None
        except ValueError:
            raise _unreadable(objects, path, "is not JSON") from None
        yield change


def _json(content: bytes) -> Any:
    """Raises ValueError."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _change(data: Any, number: int, run_id: str) -> Change:
    """Raises FieldError."""
    if not isinstance(data, dict):
        raise FieldError("change", data, "has to be a mapping of fields")
    for name, expected in {"format": FORMAT, "number": number}.items():
        if data.get(name) != expected:
            raise FieldError(name, data.get(name), f"has to be {expected}")
    kind = _KINDS.get(str(data.get("kind")))
    if kind is None:
        raise FieldError("kind", data.get("kind"), "is not known", alternatives=_KINDS)
    record = decode(kind, data.get("record"), "record")
    if record.run_id != run_id:
        raise FieldError("record.run_id", record.run_id, f"is not the run {run_id!r}")
    check_ranges(record, "record")
    return Change(number=number, record=record)


def _unreadable(objects: Objects, path: str, rule: str) -> UnreadableError:
    return UnreadableError(f"{objects.place}/{path}: {rule}", key=path)

"""Reads the knobs from search_spaces/*.yaml and from a user's file of the same form."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from autotune.errors import FieldError
from autotune.space.catalogue_checks import mistakes_in
from autotune.space.documents import decode_fields, list_in
from autotune.space.knob import Knob
from autotune.yaml_reader import Source, raise_all, read_source

SHIPPED = Path(__file__).resolve().parent.parent / "search_spaces"
SHIPPED_FILES = (
    "parallelism.yaml",
    "ddp.yaml",
    "fsdp.yaml",
    "compute.yaml",
    "nccl.yaml",
    "transport.yaml",
    "host.yaml",
)
"""In the order in which a search asks: what comes first may be a condition of what follows."""


@dataclass(kw_only=True)
class _Entry:
    """One knob, as data and decoded, and where it stands."""

    source: Source
    path: str
    data: dict[str, Any]
    knob: Knob | None = None
    mistakes: list[FieldError] = field(default_factory=list)


def load_knobs(sources: Iterable[Source] = ()) -> tuple[Knob, ...]:
    """The shipped knobs, then those of `sources`.

    An entry with the name of a knob that is there changes the keys that it gives; others are added.
    Raises UserError that names file, line, key, value and rule of every mistake in a file.
    """
    entries = dict(_shipped())
    for source in sources:
        entries = _merge(entries, source)
    return tuple(entry.knob for entry in entries.values() if entry.knob)


@cache
def _shipped() -> dict[str, _Entry]:
    entries: dict[str, _Entry] = {}
    for name in SHIPPED_FILES:
        entries = _merge(entries, read_source(SHIPPED / name))
    return entries


def _merge(known: dict[str, _Entry], source: Source) -> dict[str, _Entry]:
    mistakes: list[FieldError] = []
    entries = dict(known)
    own: dict[str, _Entry] = {}
    for index, data in enumerate(list_in(source, "knobs", mistakes)):
        entry = _entry(known, source, f"knobs[{index}]", data)
        name = entry.data.get("name")
        if name in own:
            entry.mistakes.append(FieldError(f"{entry.path}.name", name, "is there twice"))
        key = name if isinstance(name, str) and name not in own else entry.path
        own[key] = entries[key] = entry
    _check(entries, own)
    for entry in own.values():
        found = sorted(entry.mistakes, key=lambda error: source.line_of(error.field))
        mistakes += [source.error(error) for error in found]
    raise_all(source.name, mistakes)
    return entries


def _entry(known: dict[str, _Entry], source: Source, path: str, data: Any) -> _Entry:
    name = data.get("name") if isinstance(data, dict) else None
    before = known.get(name) if isinstance(name, str) else None
    if before is not None:
        # A person who names a knob wants it searched.
        data = {**before.data, "searched": "default", **data}
    entry = _Entry(source=source, path=path, data=data if isinstance(data, dict) else {})
    entry.knob = decode_fields(Knob, data, path, entry.mistakes)
    return entry


def _check(entries: dict[str, _Entry], own: dict[str, _Entry]) -> None:
    knobs = [entry.knob for entry in entries.values() if entry.knob]
    for entry in own.values():
        if entry.knob:
            entry.mistakes += mistakes_in(entry.knob, knobs, entry.path)

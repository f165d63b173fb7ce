"""Reads the knobs from search_spaces/*.yaml and from a user's file of the same form."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from autotune.errors import ABSENT, FieldError, closest
from autotune.space.catalogue_checks import mistakes_in
from autotune.space.documents import decode_fields, list_in
from autotune.space.knob import Effect, Knob, Sets, TargetKind
from autotune.yaml_reader import Source, raise_mistakes, read_source

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


_STAND_INS: dict[str, object] = {
    "help": "?",
    "sets": Sets(kind=TargetKind.ENVIRONMENT, name="UNKNOWN"),
    "effect": Effect.SMALL,
}
"""In place of what is missing or wrong, so that the rest of an entry can be checked as well."""
_MISSPELT = 0.75
"""How alike, by difflib's ratio, the name of an incomplete knob is to the one that is meant."""


@dataclass(kw_only=True)
class _Entry:
    """One knob, as data and decoded, and where it stands."""

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
        entry = _entry(known, f"knobs[{index}]", data)
        name = entry.data.get("name")
        if name in own:
            entry.mistakes.append(FieldError(f"{entry.path}.name", name, "is there twice"))
        key = name if isinstance(name, str) and name not in own else entry.path
        own[key] = entries[key] = entry
    knobs = [entry.knob for entry in entries.values() if entry.knob]
    for entry in own.values():
        mistakes += _misnamed(entry, known) or entry.mistakes + _broken_rules(entry, knobs)
    raise_mistakes(source, mistakes)
    return entries


def _entry(known: dict[str, _Entry], path: str, data: Any) -> _Entry:
    name = data.get("name") if isinstance(data, dict) else None
    before = known.get(name) if isinstance(name, str) else None
    if before is not None:
        # A person who names a knob wants it searched.
        data = {**before.data, "searched": "default", **data}
    entry = _Entry(path=path, data=data if isinstance(data, dict) else {})
    entry.knob = decode_fields(Knob, data, path, entry.mistakes, {"name": path, **_STAND_INS})
    return entry


def _misnamed(entry: _Entry, known: Collection[str]) -> list[FieldError]:
    """What is wrong with an incomplete knob that has nearly the name of another; else nothing."""
    name = entry.data.get("name")
    missing = [e for e in entry.mistakes if e.value is ABSENT and e.field.count(".") == 1]
    if not isinstance(name, str) or name in known or not missing:
        return []
    if not closest(name, known, cutoff=_MISSPELT):
        return []
    rule = "is no knob, and too little is said of it for a new one"
    misspelt = FieldError(f"{entry.path}.name", name, rule, alternatives=known)
    return [misspelt, *(e for e in entry.mistakes if e not in missing)]


def _broken_rules(entry: _Entry, knobs: Sequence[Knob]) -> list[FieldError]:
    """Those that an entry breaks beside its mistakes, and not only because of them."""
    if entry.knob is None:
        return []
    wrong = tuple(error.field for error in entry.mistakes)
    sets, choices = f"{entry.path}.sets", f"{entry.path}.choices"
    hidden: tuple[str, ...] = (sets,) if any(field.startswith(sets) for field in wrong) else ()
    if any(field.startswith((sets, choices)) for field in wrong):
        hidden = (*hidden, f"{entry.path}.default")
    return [
        error
        for error in mistakes_in(entry.knob, knobs, entry.path)
        if not error.field.startswith((*wrong, *hidden))
        and not any(field.startswith(error.field) for field in wrong)
    ]

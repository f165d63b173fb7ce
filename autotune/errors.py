"""Every exception that autotune raises on purpose.

AutotuneError
├── UserError            what a person gave can't be used (also a ValueError); exit code 2
│   └── FieldError       one field of a document has a value that breaks a rule
├── StorageError         the store can't be reached, read or written
│   ├── OutageError      its database fails now, and may work again later
│   ├── UnreadableError  one record in it can't be understood
│   └── LeaseLostError   another process works on the run now
├── ExecutorError        trials can't be launched on this machine
└── CloudError           AWS refuses, or a job there failed
    └── CloudOutageError it can't be reached now, and may be later
"""

from collections.abc import Iterable
from difflib import get_close_matches
from enum import Enum


class _Absent(Enum):
    ABSENT = "absent"


ABSENT = _Absent.ABSENT
"""The value of a field that isn't there: a message then quotes none."""


_LISTED = 24
"""Alternatives that are listed beside a suggestion."""


class AutotuneError(Exception):
    """Base of all errors raised on purpose; `hint` is a next action for the reader, or empty."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UserError(AutotuneError, ValueError):
    """Something a person gave (flag, file, environment variable) can't be used."""


class FieldError(UserError):
    """A value at `field` breaks `rule`; the message quotes the value and names the alternatives."""

    def __init__(
        self,
        field: str,
        value: object,
        rule: str,
        *,
        alternatives: Iterable[object] = (),
        hint: str = "",
    ) -> None:
        self.field = field
        self.value = value
        self.rule = rule
        self.alternatives = tuple(str(a) for a in alternatives)
        super().__init__(self._message(), hint=hint)

    def _message(self) -> str:
        value = "" if self.value is ABSENT else f"{quoted(self.value)} "
        text = f"{self.field}: {value}{self.rule}"
        if self.alternatives:
            given = str(self.value)
            close = "" if given.isdecimal() else closest(given, self.alternatives)
            text += f"; did you mean {close!r}?" if close else ""
            # A long list would only hide the one that is meant.
            if not close or len(self.alternatives) <= _LISTED:
                text += f" (one of: {', '.join(self.alternatives)})"
        return text

    def within(self, prefix: str) -> "FieldError":
        """The same error, seen from the document that holds the field's parent."""
        path = f"{prefix}{self.field}" if self.field.startswith("[") else f"{prefix}.{self.field}"
        return FieldError(
            path.rstrip("."), self.value, self.rule, alternatives=self.alternatives, hint=self.hint
        )


class StorageError(AutotuneError):
    """The store can't be reached, read or written."""


class OutageError(StorageError):
    """The database fails now: locked, full, read-only, away. The same may work later."""


class UnreadableError(StorageError):
    """A record that something else than autotune changed; `key` is its run id or trial number."""

    def __init__(self, message: str, *, key: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.key = key


class LeaseLostError(StorageError):
    """Another process works on the run now, so this one may not write about it any more."""


class ExecutorError(AutotuneError):
    """Trials can't be launched on this machine."""


class CloudError(AutotuneError):
    """AWS refuses something, or a job there failed."""


class CloudOutageError(CloudError):
    """AWS can't be reached now, or asks for less; the same may work later."""


def quoted(value: object, limit: int = 120) -> str:
    """`value` as a person can recognise it in a message, cut to `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def closest(text: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """What `text` was most likely meant to be, whatever its case; empty if nothing resembles it.

    Of those that resemble it by difflib's ratio (at least `cutoff`), the one that takes the fewest
    edits, and of these the one of the same length: p5.49xlarge is p5.48xlarge, not p5.4xlarge.
    """
    words = {word.lower(): word for word in known}
    wanted = text.lower()
    near = get_close_matches(wanted, words, n=max(1, len(words)), cutoff=cutoff)
    near = near or [word for word in words if len(wanted) > 1 and word.startswith(wanted)]
    best = min(
        near, key=lambda word: (_edits(wanted, word), abs(len(word) - len(wanted))), default=""
    )
    return words.get(best, "")


def _edits(left: str, right: str) -> int:
    """Characters to insert, drop or replace to make one of the other (Levenshtein's distance)."""
    before = list(range(len(right) + 1))
    for row, character in enumerate(left, 1):
        after = [row]
        for column, other in enumerate(right, 1):
            replaced = before[column - 1] + (character != other)
            after.append(min(before[column] + 1, after[-1] + 1, replaced))
        before = after
    return before[-1]

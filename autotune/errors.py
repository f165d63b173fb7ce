"""Every exception that autotune raises on purpose.

AutotuneError
├── UserError            what a person gave can't be used (also a ValueError); exit code 2
│   └── FieldError       one field of a document has a value that breaks a rule
├── StorageError         the store can't be reached, read or written
└── ExecutorError        trials can't be launched on this machine
"""

from collections.abc import Iterable
from difflib import get_close_matches


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
        text = f"{self.field}: {quoted(self.value)} {self.rule}"
        if self.alternatives:
            close = get_close_matches(str(self.value), self.alternatives, n=1)
            if close:
                text += f"; did you mean {close[0]!r}?"
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


class ExecutorError(AutotuneError):
    """Trials can't be launched on this machine."""


def quoted(value: object, limit: int = 120) -> str:
    """`value` as a person can recognise it in a message, cut to `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"

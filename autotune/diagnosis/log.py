"""The text that is diagnosed, and what is found in it."""

from dataclasses import dataclass

from autotune.diagnosis.signature import Role, Signature


@dataclass(frozen=True, kw_only=True)
class Log:
    """One log: a rank's own, or a launcher's that holds several ranks'."""

    name: str
    parts: tuple[tuple[int, str], ...]
    """Texts, each with the number of its first line: of a huge log, its beginning and its end."""
    rank: int | None = None
    """Whose log it is, if it is one rank's."""

    @staticmethod
    def of(text: str, *, name: str = "log", rank: int | None = None) -> "Log":
        """A log that is there as a whole."""
        return Log(name=name, parts=((1, text),), rank=rank)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A line that holds a signature."""

    signature: Signature
    role: Role
    """The signature's, or CLUE for a cause that the line mentions in passing."""
    log: str
    line: int
    quote: str
    rank: int | None
    host: str
    is_root: bool
    """torchrun names this as the first failure that it observed."""

"""Why a job failed, in words."""

from dataclasses import dataclass

from autotune.model import Outcome


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What logs say of a failure."""

    outcome: Outcome
    signature: str
    """Its name in the catalogue."""
    cause: str
    """A sentence's clause, such as `the GPU's memory ran out`."""
    action: str
    """What to do next."""
    is_root: bool
    """False if the logs show only victims: ranks that lost others, or were told to end."""
    is_precise: bool
    """The logs name the cause, not only that something failed."""
    rank: int | None
    host: str
    victims: tuple[int, ...]
    """Ranks that waited for this one or lost it."""
    quote: str
    """The line that shows it, without colours and prefixes."""
    log: str
    line: int

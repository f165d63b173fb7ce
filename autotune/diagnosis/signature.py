"""What a known text in a log means, and whether a line holds it."""

from dataclasses import dataclass
from enum import IntEnum

from autotune.model import Outcome

GAP = " … "
"""In a signature's text: anything in between."""


class Role(IntEnum):
    """What a text tells of the failure; the lower, the closer to the root."""

    MACHINE = 0
    """The kernel or the hardware says that it failed: whatever else there is follows from it."""
    CAUSE = 1
    CLUE = 2
    """Explains a failure, yet is logged in runs that go well too: counts where something failed."""
    SYMPTOM = 3
    """Says that a rank failed, not why."""
    WAITER = 4
    """The rank waited for another one in vain."""
    ENDED = 5
    """Says only that a rank ended, as ranks also do that lost others."""
    VICTIM = 6
    """The rank lost its peer, or was told to end."""


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One kind of failure as logs spell it."""

    name: str
    texts: tuple[str, ...]
    """Spellings of all versions, in any case; ` … ` stands for anything. Whole words are meant:
    at its ends, and beside each ` … `, a text doesn't continue a word of the line."""
    outcome: Outcome
    role: Role = Role.CAUSE
    cause: str
    """A clause without its subject's rank, such as `the GPU's memory ran out`."""
    action: str
    """What a person does next, as an instruction."""
    source: str
    """Who writes the texts, and in which versions."""


def holds(line: str, text: str) -> bool:
    """Whether `line` holds `text`; both are in lower case, with single spaces.

    Linear in the line's length for texts of a few words, since nothing is ever tried twice: each
    part is taken where it comes first.
    """
    at = 0
    for part in text.split(GAP):
        at = _end_of(part, line, at)
        if at < 0:
            return False
    return True


def _end_of(part: str, line: str, start: int) -> int:
    """Where `part`, as whole words, ends in `line`; -1 if it isn't there from `start` on."""
    at = line.find(part, start)
    while at >= 0:
        end = at + len(part)
        if not (_joined(line, at) or _joined(line, end)):
            return end
        at = line.find(part, at + 1)
    return -1


def _joined(line: str, at: int) -> bool:
    """Whether a word runs across position `at`."""
    return 0 < at < len(line) and _in_word(line[at - 1]) and _in_word(line[at])


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"

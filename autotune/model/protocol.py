"""The messages between a trial's ranks and whoever launched them: one JSON object a line.

The form is documented in docs/trial_protocol.md. Every rank has a channel of its own, so that what
a user's code prints can never be taken for a message. Ranks send Started and Failed, rank 0 also
Progress, Window and Finished; the launcher sends Verdict after each Window, and may send Inspect.
Ranks that may run another trial afterwards send Ready, and the launcher Following.
"""

import json
import math
from dataclasses import dataclass
from enum import StrEnum

from autotune.errors import FieldError
from autotune.model.codec import decode, encode
from autotune.model.measurement import Measurement, Window

PROTOCOL_VERSION = 1


class FailureKind(StrEnum):
    """What a rank itself can tell about why it failed."""

    OUT_OF_MEMORY = "out_of_memory"
    INVALID_KNOB = "invalid_knob"
    COLLECTIVE = "collective"
    """A collective timed out or its peer went away: usually a victim, not the cause."""
    NON_FINITE = "non_finite"
    ENVIRONMENT = "environment"
    NO_METRIC = "no_metric"
    """A script ended before its windows were measured."""
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Started:
    """The rank's process group is up and all ranks agree on their settings."""

    rank: int
    pid: int
    host: str


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Rank 0 is still at it, before the first window: a sign of life, to which nothing is said."""

    steps: int
    """Done so far; 0 once the model is built."""


@dataclass(frozen=True, kw_only=True)
class WindowDone:
    """Rank 0 has closed a window and waits for a Verdict."""

    window: Window


@dataclass(frozen=True, kw_only=True)
class Finished:
    """Rank 0's last message: the trial's measurement."""

    measurement: Measurement


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A rank's last message when it can't go on."""

    rank: int
    kind: FailureKind
    exception: str
    """The class's name."""
    message: str
    traceback: str


class Verdict(StrEnum):
    """The launcher's answer to a WindowDone."""

    GO = "go"
    STOP = "stop"
    """The trial has lost, or nobody wants it any more."""
    ENOUGH = "enough"
    """What was measured suffices: the trial ends before its last planned window, completed."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The launcher's message."""

    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Inspect:
    """The launcher asks a rank that hangs, or waits for one that does, what it is at."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Nothing of the rank's trial is left, and it waits for another one or for its end."""

    rank: int


@dataclass(frozen=True, kw_only=True)
class Following:
    """The launcher's message to a rank that is ready: the next trial, as paths of files."""

    spec: str
    log: str


Message = Started | Progress | WindowDone | Finished | Failed | Answer | Inspect | Ready | Following
_TYPES: dict[str, type[Message]] = {
    "started": Started,
    "progress": Progress,
    "window": WindowDone,
    "finished": Finished,
    "failed": Failed,
    "answer": Answer,
    "inspect": Inspect,
    "ready": Ready,
    "following": Following,
}
_NAMES = {kind: name for name, kind in _TYPES.items()}


def to_line(message: Message) -> bytes:
    """`message` as one UTF-8 line with its newline."""
    body = {"v": PROTOCOL_VERSION, "type": _NAMES[type(message)], **encode(message)}
    return json.dumps(body, allow_nan=False).encode() + b"\n"


def from_line(line: bytes) -> Message:
    """The message in `line`. Raises FieldError for anything that isn't one."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FieldError("line", line, f"is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise FieldError("line", line, "has to be a JSON object")
    version = body.pop("v", None)
    if isinstance(version, bool) or version != PROTOCOL_VERSION:
        raise FieldError("v", version, "is not a protocol spoken here", alternatives=[1])
    name = body.pop("type", None)
    if not isinstance(name, str) or name not in _TYPES:
        raise FieldError("type", name, "is not a message", alternatives=_TYPES)
    message = decode(_TYPES[name], body)
    match message:
        case WindowDone(window=window):
            _check(window, "window")
        case Finished(measurement=measurement):
            for index, window in enumerate(measurement.windows):
                _check(window, f"measurement.windows[{index}]")
    return message


def _check(window: Window, path: str) -> None:
    """Raise FieldError for what no steps can have taken: it is divided by, and its log is taken."""
    for name in ("steps", "samples"):
        if getattr(window, name) < 1:
            raise FieldError(f"{path}.{name}", getattr(window, name), "has to be at least 1")
    if not 0 < window.seconds < math.inf:
        raise FieldError(f"{path}.seconds", window.seconds, "has to be finite and above 0")

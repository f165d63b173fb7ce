"""Whether NCCL did what it was asked to, setting by setting."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from autotune.trainers.nccl_log.readback import Choice, NcclReadback
from autotune.trainers.nccl_log.selection import COLLECTIVES, Selection, selections
from autotune.trainers.nccl_log.values import integer, same_value

_LIMITS = {
    "NCCL_MIN_NCHANNELS": False,
    "NCCL_MIN_CTAS": False,
    "NCCL_MAX_NCHANNELS": True,
    "NCCL_MAX_CTAS": True,
}
"""Whether it is an upper limit of the channels for collectives."""


class Uptake(StrEnum):
    """What became of a setting."""

    TAKEN = "taken"
    REFUSED = "refused"
    """NCCL has read it and says that it can't use it."""
    NOT_SEEN = "not seen"
    """NCCL has never read it: an unknown name, or a part of NCCL that isn't in use."""
    OVERRIDDEN = "overridden"
    """NCCL has read another value, or did something else all the same."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What became of one setting, and the line that shows it."""

    name: str
    requested: str
    uptake: Uptake
    confirmed: bool
    """Taken: the log shows what it did, where it ever shows that for this setting (channels,
    algorithm, protocol, sockets). Not seen: nothing of the log is missing."""
    evidence: str
    """Empty if not seen."""


def effective(readback: NcclReadback, requested: Mapping[str, str]) -> dict[str, Effect]:
    """What became of each of NCCL's variables in `requested`, by name.

    Others aren't in the result, nor is NCCL_DEBUG with its relatives, which make the log.
    """
    return {
        name: _effect(readback, name, value)
        for name, value in requested.items()
        if name.startswith("NCCL_") and not name.startswith("NCCL_DEBUG")
    }


def _effect(readback: NcclReadback, name: str, value: str) -> Effect:
    def result(uptake: Uptake, evidence: str, *, confirmed: bool = True) -> Effect:
        return Effect(
            name=name, requested=value, uptake=uptake, confirmed=confirmed, evidence=evidence
        )

    if name in readback.refused:
        return result(Uptake.REFUSED, readback.refused[name])
    if name not in readback.environment:
        whole = readback.messages > 0 and not readback.truncated
        return result(Uptake.NOT_SEEN, "", confirmed=whole)
    seen = readback.environment[name]
    line = f"{name} set by environment to {seen}"
    if not same_value(name, value, seen):
        added = readback.injected.get(name)
        by = " (added by a network plugin)" if added and same_value(name, added, seen) else ""
        return result(Uptake.OVERRIDDEN, line + by)
    contradiction, proof = _seen_at_work(readback, name, seen)
    if contradiction:
        return result(Uptake.OVERRIDDEN, contradiction)
    return result(Uptake.TAKEN, proof or line, confirmed=proof is not None)


def _seen_at_work(readback: NcclReadback, name: str, value: str) -> tuple[str, str | None]:
    """A line against, and one for it: None if there should be one, empty if there never is."""
    if name in _LIMITS:
        return _channels(readback, name, value)
    if name in ("NCCL_ALGO", "NCCL_PROTO"):
        return _selected(readback, value, of_algorithm=name == "NCCL_ALGO")
    if name == "NCCL_NVLS_NCHANNELS":
        return _nvls_channels(readback, value)
    if name == "NCCL_SOCKET_NTHREADS":
        return _exactly(readback.socket_threads, value, "socket threads")
    if name == "NCCL_NSOCKS_PERTHREAD":
        return _exactly(readback.sockets_per_thread, value, "sockets per thread")
    return "", ""


def _channels(readback: NcclReadback, name: str, value: str) -> tuple[str, str | None]:
    proof = None
    limit = integer(value) or 0
    for communicator in readback.communicators:
        count = communicator.coll_channels
        # With one rank nothing is sent; a split one is bound by its parent too.
        if count is None or communicator.ranks == 1:
            continue
        above = _LIMITS[name] and count > limit
        below = not _LIMITS[name] and not communicator.split and count < limit
        if above or below:
            return communicator.channels, None
        proof = proof or communicator.channels
    return "", proof


def _nvls_channels(readback: NcclReadback, value: str) -> tuple[str, str | None]:
    for communicator in readback.communicators:
        if communicator.nvls_channels is not None and communicator.ranks != 1:
            return _exactly(communicator.nvls_channels, value, "nvls channels")
    return "", None


def _exactly(actual: int | None, value: str, what: str) -> tuple[str, str | None]:
    if actual is None:
        return "", None
    line = f"{actual} {what}"
    return ("", line) if str(actual) == value else (line, None)


def _selected(readback: NcclReadback, value: str, *, of_algorithm: bool) -> tuple[str, str | None]:
    """Against it speaks any launch, or row of the matrix, of what isn't selected."""
    allowed = selections(value)
    proof = None
    for choice in readback.choices:
        selection = _selection_for(choice, allowed)
        if selection is None:
            continue
        name = choice.kernel or (choice.algorithm if of_algorithm else choice.protocol)
        line = f"{choice.collective or 'a collective'} of {choice.size_bytes} bytes: {name}"
        if not selection.allows(name):
            return line, None
        proof = proof or line
    for row in readback.enabled:
        selection = allowed.get(row.collective.casefold())
        names = row.algorithms if of_algorithm else row.protocols
        if selection is None:
            continue
        line = f"enabled for {row.collective}: {', '.join(names) or 'nothing'}"
        if not names or not all(selection.allows(name) for name in names):
            return line, None
        proof = proof or line
    return "", proof


def _selection_for(choice: Choice, allowed: Mapping[str, Selection]) -> Selection | None:
    """Before 2.23 the line doesn't name the collective, and a selection is for all of them."""
    return allowed.get((choice.collective or COLLECTIVES[0]).casefold())

"""The launcher's ends of the ranks' channels: protocol lines in, answers out, nothing blocks."""

import selectors
import socket
from contextlib import suppress
from dataclasses import dataclass, field

from autotune.errors import quoted
from autotune.model.protocol import Answer, Following, Inspect, Message, from_line, to_line

LINE_LIMIT_BYTES = 16 * 2**20
"""A result with the losses of a million steps is a fifth of this."""
_CHUNK_BYTES = 2**16
_CHUNKS_PER_TURN = 64
"""A rank that never stops sending gets its turn, and so do the clock and the other ranks."""


@dataclass(frozen=True, kw_only=True)
class Received:
    """A message of a rank."""

    rank: int
    message: Message


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A rank sent what is no message; it is not listened to any more."""

    rank: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Closed:
    """A rank, and every process that has its end of the channel, closed it."""

    rank: int


Event = Received | Fault | Closed


@dataclass
class _Line:
    """What has come of a line whose newline hasn't."""

    rank: int
    partial: bytearray = field(default_factory=bytearray)


class Channels:
    """Connected stream sockets, one for each rank. Owns them; not thread-safe."""

    def __init__(self, *, line_limit_bytes: int = LINE_LIMIT_BYTES) -> None:
        self._line_limit_bytes = line_limit_bytes
        self._selector = selectors.DefaultSelector()
        self._sockets: dict[int, socket.socket] = {}

    def open(self, rank: int) -> socket.socket:
        """A new channel for `rank`; returns the rank's end, which the caller closes."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        self._sockets[rank] = ours
        self._selector.register(ours, selectors.EVENT_READ, _Line(rank))
        return theirs

    def wait(self, timeout_s: float) -> list[Event]:
        """What arrives within `timeout_s`, as soon as anything has, in the order of each rank."""
        events: list[Event] = []
        for key, _ in self._selector.select(timeout_s):
            events += self._read(self._sockets[key.data.rank], key.data)
        return events

    def send(self, rank: int, message: Answer | Following) -> Fault | None:
        """Send `message`. A rank that doesn't read is at fault; one that is gone is found out."""
        line = to_line(message)
        try:
            sent = self._sockets[rank].send(line)
        except BlockingIOError:
            sent = 0
        except OSError:
            return None
        if sent == len(line):
            return None
        self._ignore(rank)
        return Fault(rank=rank, reason="does not read the answers to its windows")

    def ask_where(self, rank: int) -> None:
        """Have `rank` write what it is at; one that can't is left alone."""
        with suppress(OSError, KeyError):
            self._sockets[rank].send(to_line(Inspect()))

    def close(self) -> None:
        self._selector.close()
        for ours in self._sockets.values():
            ours.close()
        self._sockets.clear()

    def _read(self, ours: socket.socket, line: _Line) -> list[Event]:
        events: list[Event] = []
        for _ in range(_CHUNKS_PER_TURN):
            try:
                chunk = ours.recv(_CHUNK_BYTES)
            except BlockingIOError:
                break
            except OSError:  # reset: the other end died with our answer unread
                chunk = b""
            if not chunk:
                self._ignore(line.rank)
                return [*events, *self._end_of(line)]
            events += self._lines(line, chunk)
            if events and isinstance(events[-1], Fault):
                self._ignore(line.rank)
                break
        return events

    def _end_of(self, line: _Line) -> list[Event]:
        if line.partial:
            reason = f"stopped in the middle of a message: {quoted(bytes(line.partial))}"
            return [Fault(rank=line.rank, reason=reason), Closed(rank=line.rank)]
        return [Closed(rank=line.rank)]

    def _lines(self, line: _Line, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes; the last one only may be a fault."""
        events: list[Event] = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line.partial += end
            events.append(self._event(line.rank, bytes(line.partial)))
            line.partial.clear()
            if isinstance(events[-1], Fault):
                return events
        line.partial += rest
        if len(line.partial) > self._line_limit_bytes:
            events.append(self._too_long(line.rank))
            line.partial.clear()
        return events

    def _event(self, rank: int, line: bytes) -> Event:
        if len(line) > self._line_limit_bytes:
            return self._too_long(rank)
        try:
            return Received(rank=rank, message=from_line(line))
        # Not FieldError alone: what a broken rank sends must not be able to end the launcher.
        except (ValueError, TypeError, ArithmeticError) as error:
            return Fault(rank=rank, reason=f"sent something that is no message: {error}")

    def _too_long(self, rank: int) -> Fault:
        limit = self._line_limit_bytes
        return Fault(rank=rank, reason=f"sent a message longer than {limit} bytes")

    def _ignore(self, rank: int) -> None:
        """Listen no more, and keep the socket: an end of file would tell the rank to give up."""
        with suppress(KeyError):  # already
            self._selector.unregister(self._sockets[rank])

"""A rank's line to its launcher: messages out, answers in, and an end when it is gone."""

import os
import queue
import socket
import sys
from collections.abc import Callable
from threading import Event, Thread
from typing import NoReturn

from autotune.errors import AutotuneError, FieldError
from autotune.model.protocol import (
    Answer,
    Following,
    Inspect,
    Message,
    Ready,
    Verdict,
    from_line,
    to_line,
)

VARIABLE = "AUTOTUNE_CHANNEL_FD"
LONGEST_LINE = 65536
"""Bytes; an answer has less than a hundred."""
LAUNCHER_GONE = 3
"""Exit code of a rank whose channel was closed while it was at work."""


_INSPECT = to_line(Inspect())


class ProtocolError(AutotuneError):
    """The launcher sent something that isn't an answer."""


class Channel:
    """Without a launcher: messages go to stdout and every verdict is `go`."""

    on_inspect: Callable[[], None] = staticmethod(lambda: None)
    """Called in another thread when the launcher asks what this rank is at."""

    @staticmethod
    def from_environment() -> "Channel":
        """The channel that the launcher left in AUTOTUNE_CHANNEL_FD, if there is one."""
        fd = os.environ.get(VARIABLE)
        return Channel() if fd is None else SocketChannel(socket.socket(fileno=int(fd)))

    def send(self, message: Message) -> None:
        sys.stdout.write(to_line(message).decode())
        sys.stdout.flush()

    def verdict(self) -> Verdict:
        """What the launcher says to the window that was just sent; waits for it."""
        return Verdict.GO

    def close(self) -> None:
        """From here on the launcher may go away."""

    def send_last(self, message: Message) -> None:
        """The launcher may go away as soon as it has read this one."""
        self.close()
        self.send(message)

    def following(self, rank: int) -> Following | None:
        """Offer to run another trial and wait for it; None if the launcher has gone instead."""
        return None


class SocketChannel(Channel):
    """A connected Unix stream socket. The process exits when the launcher closes its end."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._closing = Event()
        Thread(target=self._read, name="channel", daemon=True).start()

    def send(self, message: Message) -> None:
        self._socket.sendall(to_line(message))

    def verdict(self) -> Verdict:
        line = self._lines.get()
        if not line:
            # The reading thread says so too, and may come later.
            _end_without_launcher()
        try:
            message = from_line(line)
        except FieldError as error:
            raise ProtocolError(f"the launcher's answer can't be read: {error}") from error
        if not isinstance(message, Answer):
            raise ProtocolError(f"expected an answer from the launcher, got: {message}")
        return message.verdict

    def close(self) -> None:
        self._closing.set()

    def following(self, rank: int) -> Following | None:
        self.close()
        try:
            self.send(Ready(rank=rank))
        except OSError:
            return None
        line = self._lines.get()
        if not line:
            return None
        message = from_line(line)
        if not isinstance(message, Following):
            raise ProtocolError(f"expected a trial from the launcher, got: {message}")
        self._closing.clear()
        if not self._lines.empty():  # it has closed its end right after
            os._exit(LAUNCHER_GONE)
        return message

    def _read(self) -> None:
        try:
            with self._socket.makefile("rb") as stream:
                # A line beyond the limit arrives in pieces, none of which is an answer.
                while line := stream.readline(LONGEST_LINE):
                    if line == _INSPECT:
                        self.on_inspect()
                    else:
                        self._lines.put(line)
        except OSError as error:
            sys.stderr.write(f"autotune: the channel broke: {error}\n")
        self._lines.put(b"")
        if not self._closing.is_set():
            # The main thread may sit in a collective that nobody will ever join.
            _end_without_launcher()


def _end_without_launcher() -> NoReturn:
    sys.stderr.write("autotune: the launcher is gone, this rank ends too\n")
    sys.stderr.flush()
    os._exit(LAUNCHER_GONE)

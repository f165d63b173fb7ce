"""The line between a job's hosts: workers learn from it where Ray is, and when all is over.

One connection for each worker, JSON lines both ways: the worker names itself and shows the job's
token, the head answers with Ray's address, and in the end with the exit code. A connection that
breaks without that says that the other host is gone.
"""

import hmac
import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import Any

from autotune.errors import ExecutorError

PORT = 7946
_GREETING_S = 10.0
_LONGEST = 4096
_RETRY_S = 1.0
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4))
"""So that a host whose machine is gone is noticed within half a minute."""


class Meeting:
    """The head's side, from when Ray is there to the end."""

    def __init__(self, address: str, token: str, ray: str, port: int = PORT) -> None:
        """`address` is this host's own, `ray` what workers are told. Raises ExecutorError."""
        self._token = token
        self._ray = ray
        self._lines: dict[str, socket.socket] = {}
        self._lock = Lock()
        try:
            self._socket = socket.create_server((address, port))
        except OSError as error:
            raise ExecutorError(f"{address}:{port}: can't be listened on: {error}") from None
        Thread(target=self._accept, name="meeting", daemon=True).start()

    @property
    def present(self) -> set[str]:
        """Names of the workers that have come."""
        with self._lock:
            return set(self._lines)

    def dismiss(self, code: int) -> None:
        """Have all workers end, with this exit code."""
        self._socket.close()
        with self._lock:
            for line in self._lines.values():
                with suppress(OSError):
                    _send(line, {"code": code})
                    line.close()

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                return  # dismissed
            Thread(target=self._greet, args=(line,), daemon=True).start()

    def _greet(self, line: socket.socket) -> None:
        """Keep the line, if it is one of the job's."""
        try:
            line.settimeout(_GREETING_S)
            greeting = _receive(line)
            if not hmac.compare_digest(str(greeting.get("token")), self._token):
                line.close()
                return
            _keep_alive(line)
            _send(line, {"ray": self._ray})
        except (OSError, ValueError):
            line.close()
            return
        with self._lock:
            self._lines[str(greeting.get("host"))] = line


class Line:
    """A worker's side."""

    def __init__(self, connection: socket.socket, ray: str) -> None:
        self._connection = connection
        self.ray = ray
        """The address of the cluster."""

    def code(self, seconds: float) -> int | None:
        """The exit code, if it comes in so many seconds.

        Raises ExecutorError if the head is gone.
        """
        if not select.select([self._connection], [], [], seconds)[0]:
            return None
        try:
            return int(_receive(self._connection)["code"])
        except (OSError, ValueError, KeyError):
            raise ExecutorError(
                "the job's first host is gone: nothing was heard of its end"
            ) from None

    def close(self) -> None:
        """Let the head know nothing more."""
        self._connection.close()


@contextmanager
def joined(
    address: Callable[[], str],
    host: str,
    token: str,
    *,
    goes_on: Callable[[], bool],
    port: int = PORT,
) -> Iterator[Line]:
    """The line to the head, tried for as long as `goes_on`. Raises ExecutorError.

    `address` finds the head's, which may take a while to be known.
    """
    problem = "it wasn't tried"
    while goes_on():
        try:
            line = _greeted((address(), port), {"host": host, "token": token})
        except (OSError, ValueError, KeyError) as error:
            problem = str(error)
            time.sleep(_RETRY_S)
        else:
            break
    else:
        raise ExecutorError(f"the job's first host can't be reached on port {port}: {problem}")
    try:
        yield line
    finally:
        line.close()


def _greeted(place: tuple[str, int], greeting: dict[str, Any]) -> Line:
    """A line over which the head has answered."""
    connection = socket.create_connection(place, timeout=_GREETING_S)
    try:
        _send(connection, greeting)
        ray = str(_receive(connection)["ray"])
        _keep_alive(connection)
    except BaseException:
        connection.close()
        raise
    return Line(connection, ray)


def _keep_alive(line: socket.socket) -> None:
    line.settimeout(None)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        line.setsockopt(socket.IPPROTO_TCP, option, value)


def _send(line: socket.socket, message: dict[str, Any]) -> None:
    line.sendall(json.dumps(message).encode() + b"\n")


def _receive(line: socket.socket) -> dict[str, Any]:
    """One message. Raises OSError if the line breaks, and ValueError for what is none."""
    text = b""
    while not text.endswith(b"\n"):
        part = line.recv(1)
        if not part:
            raise ConnectionError("the connection was closed")
        text += part
        if len(text) > _LONGEST:
            raise ValueError("the message is too long")
    message = json.loads(text)
    if not isinstance(message, dict):
        raise ValueError("the message is no mapping")  # noqa: TRY004 - it came from elsewhere
    return message

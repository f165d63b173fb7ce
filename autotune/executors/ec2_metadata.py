"""Asks EC2's instance metadata service (IMDSv2) what this machine is.

The time limit is on the whole exchange: the standard library's clients limit each read only, and a
server that sends a byte now and then could hold them for ever.
"""

import io
import os
import re
import socket
import time
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

LIMIT_S = 1.0
ENDPOINT = "http://169.254.169.254"
_MAX_BYTES = 64 * 1024
_TOKEN = re.compile(r"[\x21-\x7e]{1,1024}")
_TYPE = re.compile(r"[a-z0-9-]{1,30}\.[a-z0-9-]{1,30}")


def instance_type(environment: Mapping[str, str] | None = None) -> str | None:
    """For example `p4d.24xlarge`; None where nothing that answers sensibly is reached in time.

    The variables AWS_EC2_METADATA_SERVICE_ENDPOINT and AWS_EC2_METADATA_DISABLED are those of the
    AWS SDKs.
    """
    variables = os.environ if environment is None else environment
    if variables.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    deadline = time.monotonic() + LIMIT_S
    try:
        service = _Service(variables.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or ENDPOINT, deadline)
        token = service.ask(
            "PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        )
        if not _TOKEN.fullmatch(token):
            return None
        header = {"X-aws-ec2-metadata-token": token}
        found = service.ask("GET", "/latest/meta-data/instance-type", header)
    except (OSError, ValueError, HTTPException):
        return None
    return found if _TYPE.fullmatch(found) else None


class _Service:
    """One HTTP server, asked until `deadline`."""

    def __init__(self, endpoint: str, deadline: float) -> None:
        parts = urlsplit(endpoint)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(endpoint)
        self._address = (parts.hostname, parts.port or 80)
        self._host = parts.netloc.rpartition("@")[2]
        self._path = parts.path.rstrip("/")
        self._deadline = deadline

    def ask(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """The text of a successful answer. Raises OSError, HTTPException or ValueError."""
        lines = [f"{method} {self._path}{path} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["Content-Length: 0", "Connection: close", "", ""]
        # The address is a number, so no name has to be resolved within the limit.
        with socket.create_connection(self._address, timeout=self._left()) as connection:
            connection.sendall("\r\n".join(lines).encode("ascii"))
            answer = self._read(connection)
        return _text(answer, method)

    def _read(self, connection: socket.socket) -> bytes:
        received = bytearray()
        while len(received) <= _MAX_BYTES:
            connection.settimeout(self._left())
            part = connection.recv(8192)
            if not part:
                return bytes(received)
            received += part
        raise ValueError("the answer is too long")

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _text(answer: bytes, method: str) -> str:
    source: Any = _Received(answer)
    response = HTTPResponse(source, method=method)
    response.begin()
    if response.status != 200:
        raise ValueError(f"status {response.status}")
    return response.read().decode("ascii").strip()


class _Received:
    """What HTTPResponse reads from in place of a socket."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, mode: str) -> io.BytesIO:
        del mode
        return io.BytesIO(self._content)

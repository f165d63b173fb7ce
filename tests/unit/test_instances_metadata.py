"""EC2's metadata service, played by a real server: what it says, and what it can't do to us."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from autotune.executors.ec2_metadata import instance_type
from autotune.machines import find_place

TOKEN = "AQAEAK=="


class Handler(BaseHTTPRequestHandler):
    """Answers as IMDSv2 does: no token, no answer."""

    answer = "p4d.24xlarge"

    def do_PUT(self) -> None:
        is_right = self.headers["X-aws-ec2-metadata-token-ttl-seconds"] == "60"
        is_right = is_right and self.path == "/latest/api/token"
        self.reply(200 if is_right else 400, TOKEN)

    def do_GET(self) -> None:
        is_right = self.headers["X-aws-ec2-metadata-token"] == TOKEN
        is_right = is_right and self.path == "/latest/meta-data/instance-type"
        self.reply(200 if is_right else 401, self.answer)

    def reply(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: object) -> None:
        pass


class Chunked(Handler):
    protocol_version = "HTTP/1.1"

    def reply(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(f"{len(text):x}\r\n{text}\r\n0\r\n\r\n".encode())


class Slow(Handler):
    """A byte every tenth of a second, for a minute."""

    def reply(self, status: int, text: str) -> None:
        del status, text
        for byte in b"HTTP/1.1 200 OK\r\n" + b"X-Wait: a\r\n" * 50:
            try:
                self.wfile.write(bytes([byte]))
            except OSError:
                return
            time.sleep(0.1)


class Endless(Handler):
    def reply(self, status: int, text: str) -> None:
        del text
        self.send_response(status)
        self.end_headers()
        try:
            for _ in range(10_000):
                self.wfile.write(b"a" * 8192)
        except OSError:
            return


class Html(Handler):
    answer = "<html>Log in to the hotel's network</html>"


class Hostile(Handler):
    answer = "p4d.24xlarge\x1b[2J"


class NotUtf(Handler):
    def reply(self, status: int, text: str) -> None:
        del text
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"\xff\xfe")


class Silent(Handler):
    def reply(self, status: int, text: str) -> None:
        del status, text


class Forbidden(Handler):
    def reply(self, status: int, text: str) -> None:
        super().reply(403, text)


class NewlineToken(Handler):
    """A token that would smuggle a header into the next request."""

    def do_PUT(self) -> None:
        self.reply(200, "a\r\nX-Evil: 1")

    def do_GET(self) -> None:
        self.reply(200, self.answer)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[dict[str, str]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            endpoint = f"http://127.0.0.1:{server.server_address[1]}"
            yield {"AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint}
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("handler", [Handler, Chunked])
def test_the_instance_type_is_asked_with_a_token(handler: type[Handler]) -> None:
    with serving(handler) as environment:
        assert instance_type(environment) == "p4d.24xlarge"
        slash = {k: f"{v}/" for k, v in environment.items()}
        assert instance_type(slash) == "p4d.24xlarge"
        assert instance_type({**environment, "AWS_EC2_METADATA_DISABLED": "TRUE"}) is None


@pytest.mark.parametrize(
    "handler",
    [Slow, Endless, Html, Hostile, NotUtf, Silent, Forbidden, NewlineToken],
    ids=lambda handler: handler.__name__,
)
def test_a_server_that_makes_no_sense_is_left_within_the_limit(handler: type[Handler]) -> None:
    with serving(handler) as environment:
        started = time.monotonic()
        assert instance_type(environment) is None
        assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:9", "https://127.0.0.1", "ftp://x", "nonsense", "http://[::1"]
)
def test_no_server(endpoint: str) -> None:
    assert instance_type({"AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint}) is None


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], list[int]]:
    def answer(name: str | None) -> list[int]:
        calls: list[int] = []

        def ask() -> str | None:
            calls.append(1)
            return name

        monkeypatch.setattr("autotune.machines.instance_type", ask)
        return calls

    return answer


def test_auto_is_this_machine_where_ec2_says_nothing_known(
    answering: Callable[[str | None], list[int]],
) -> None:
    here = find_place("local").machine
    for answer in (None, "x9.large"):
        calls = answering(answer)
        assert find_place("auto").machine.instance == here.instance
        assert calls
    calls = answering("p4d.24xlarge")
    assert find_place("auto", ask_ec2=False).machine.instance == here.instance
    assert not calls


def test_auto_takes_ec2_s_word_and_checks_it(
    answering: Callable[[str | None], list[int]],
) -> None:
    answering("p4d.24xlarge")
    if find_place("local").machine.gpus:
        pytest.skip("this machine has GPUs")
    with pytest.raises(ValueError, match=r"this machine isn't a p4d\.24xlarge"):
        find_place("auto")

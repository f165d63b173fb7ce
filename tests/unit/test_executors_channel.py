"""Lines from ranks: whole, in pieces, wrong, too long."""

import socket
from collections.abc import Iterator

import pytest

from autotune.executors.channel import Channels, Closed, Event, Fault, Received
from autotune.model.protocol import Answer, Started, Verdict, to_line

STARTED = Started(rank=0, pid=1, host="h")


@pytest.fixture
def channels() -> Iterator[Channels]:
    channels = Channels(line_limit_bytes=1000)
    yield channels
    channels.close()


@pytest.fixture
def rank(channels: Channels) -> Iterator[socket.socket]:
    with channels.open(0) as end:
        yield end


def faults(events: list[Event]) -> list[str]:
    return [event.reason for event in events if isinstance(event, Fault)]


def test_an_empty_channel_is_not_waited_for(channels: Channels, rank: socket.socket) -> None:
    assert channels.wait(0) == []


def test_a_line_in_pieces_is_one_message(channels: Channels, rank: socket.socket) -> None:
    line = to_line(STARTED)
    rank.send(line[:10])
    assert channels.wait(0.1) == []
    rank.send(line[10:] + line)
    assert channels.wait(0.1) == [Received(rank=0, message=STARTED)] * 2


def test_each_rank_is_heard(channels: Channels, rank: socket.socket) -> None:
    with channels.open(1) as other:
        other.send(to_line(STARTED))
        rank.close()
        events = channels.wait(0.1) + channels.wait(0.1)
    assert Received(rank=1, message=STARTED) in events
    assert Closed(rank=0) in events


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\x00",
        b"[]",
        b'{"v": 1}',
        b'{"v": 2, "type": "started"}',
        b'{"v": 1, "type": []}',
        b'{"v": 1, "type": "window", "window": {"index": 0, "steps": 1, "samples": 1, "seconds": '
        + b"9" * 400
        + b"}}",
        b"[" * 900,
    ],
)
def test_what_is_no_message_is_a_fault_and_the_last_event(
    channels: Channels, rank: socket.socket, line: bytes
) -> None:
    rank.send(line + b"\n" + to_line(STARTED))
    (reason,) = faults(channels.wait(0.1))
    assert reason.startswith("sent something that is no message")
    rank.send(to_line(STARTED))
    assert channels.wait(0.05) == []


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_over_the_limit_is_a_fault(
    channels: Channels, rank: socket.socket, end: bytes
) -> None:
    rank.send(b"x" * 1001 + end)
    assert faults(channels.wait(0.1)) == ["sent a message longer than 1000 bytes"]


def test_a_line_as_long_as_the_limit_is_read(channels: Channels, rank: socket.socket) -> None:
    line = to_line(STARTED)[:-1]
    rank.send(line + b" " * (1000 - len(line)) + b"\n")
    assert channels.wait(0.1) == [Received(rank=0, message=STARTED)]


def test_an_end_in_the_middle_of_a_line_is_a_fault(channels: Channels, rank: socket.socket) -> None:
    rank.send(b'{"v"')
    rank.close()
    events = channels.wait(0.1)
    assert faults(events) == ["stopped in the middle of a message: b'{\"v\"'"]
    assert events[-1] == Closed(rank=0)


def test_an_answer_arrives(channels: Channels, rank: socket.socket) -> None:
    assert channels.send(0, Answer(verdict=Verdict.STOP)) is None
    assert rank.recv(1000) == to_line(Answer(verdict=Verdict.STOP))


def test_a_rank_that_is_gone_is_no_fault(channels: Channels, rank: socket.socket) -> None:
    rank.close()
    assert channels.send(0, Answer(verdict=Verdict.GO)) is None


def test_a_rank_that_does_not_read_is_at_fault(channels: Channels, rank: socket.socket) -> None:
    answers = (channels.send(0, Answer(verdict=Verdict.GO)) for _ in range(100_000))
    fault = next(answer for answer in answers if answer is not None)
    assert fault.reason == "does not read the answers to its windows"

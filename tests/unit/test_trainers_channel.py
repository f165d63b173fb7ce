"""A rank's end of the channel."""

import os
import queue
import socket
import threading
from collections.abc import Iterator

import pytest

from autotune.model.protocol import Answer, Following, Ready, Started, Verdict, from_line, to_line
from autotune.trainers.channel import (
    LAUNCHER_GONE,
    LONGEST_LINE,
    Channel,
    ProtocolError,
    SocketChannel,
)

STARTED = Started(rank=0, pid=1, host="here")


@pytest.fixture
def launcher() -> Iterator[tuple[socket.socket, Channel]]:
    ours, theirs = socket.socketpair()
    with theirs:
        channel = SocketChannel(theirs)
        yield ours, channel
        channel.close()  # else the rank, here pytest, would end with its launcher
        ours.close()
        for thread in threading.enumerate():
            if thread.name == "channel":
                thread.join(timeout=10)


def test_messages_out_and_answers_in(launcher: tuple[socket.socket, Channel]) -> None:
    ours, channel = launcher
    channel.send(STARTED)
    assert from_line(ours.recv(4096)) == STARTED
    for verdict in (Verdict.GO, Verdict.STOP):
        ours.sendall(to_line(Answer(verdict=verdict)))
    assert [channel.verdict(), channel.verdict()] == [Verdict.GO, Verdict.STOP]


def test_an_answer_may_come_in_pieces(launcher: tuple[socket.socket, Channel]) -> None:
    ours, channel = launcher
    for byte in to_line(Answer(verdict=Verdict.STOP)):
        ours.sendall(bytes([byte]))
    assert channel.verdict() is Verdict.STOP


@pytest.mark.parametrize(
    "line",
    [
        b"go\n",
        b"\n",
        b"\xff\xfe\x00\n",
        b"[" * 50_000 + b"\n",
        b'{"v": 2, "type": "answer", "verdict": "go"}\n',
        b'{"v": 1, "type": "answer", "verdict": "perhaps"}\n',
        b'{"v": 1, "type": "answer"}\n',
        b'{"v": 1, "type": [], "verdict": "go"}\n',
        to_line(STARTED),
        b"x" * (2 * LONGEST_LINE),
    ],
    ids=lambda line: repr(line[:20]),
)
def test_what_is_no_answer_is_refused(launcher: tuple[socket.socket, Channel], line: bytes) -> None:
    ours, channel = launcher
    ours.sendall(line)
    with pytest.raises(ProtocolError):
        channel.verdict()


def test_who_waits_for_an_answer_ends_with_the_launcher_whoever_sees_it_first(
    launcher: tuple[socket.socket, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that waits may be ahead of the one that reads: that is no wrong answer."""
    ours, channel = launcher
    channel.close()  # the reading thread, in which pytest would end, leaves it to this one

    def ended(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", ended)
    ours.shutdown(socket.SHUT_RDWR)
    with pytest.raises(SystemExit) as end:
        channel.verdict()
    assert end.value.code == LAUNCHER_GONE


def test_without_a_launcher_all_goes_to_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AUTOTUNE_CHANNEL_FD", raising=False)
    channel = Channel.from_environment()
    assert not isinstance(channel, SocketChannel)
    channel.send_last(STARTED)
    assert from_line(capsys.readouterr().out.encode()) == STARTED
    assert channel.verdict() is Verdict.GO


def test_a_rank_that_is_ready_is_given_a_trial(launcher: tuple[socket.socket, Channel]) -> None:
    ours, channel = launcher
    following = Following(spec="/s", log="/l")
    ours.sendall(to_line(following))
    assert channel.following(1) == following
    assert from_line(ours.recv(4096)) == Ready(rank=1)
    ours.sendall(to_line(Answer(verdict=Verdict.STOP)))
    assert channel.verdict() is Verdict.STOP


def test_a_rank_that_is_ready_outlives_its_launcher_and_is_done(
    launcher: tuple[socket.socket, Channel],
) -> None:
    ours, channel = launcher
    channel.close()
    ours.shutdown(socket.SHUT_WR)
    assert channel.following(0) is None
    assert Channel().following(0) is None, "without a launcher nothing follows"


def test_a_rank_that_is_ready_takes_nothing_but_a_trial(
    launcher: tuple[socket.socket, Channel],
) -> None:
    ours, channel = launcher
    ours.sendall(to_line(Answer(verdict=Verdict.GO)))
    with pytest.raises(ProtocolError, match="expected a trial"):
        channel.following(0)


def test_a_rank_at_work_again_ends_with_its_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: queue.SimpleQueue[int] = queue.SimpleQueue()
    monkeypatch.setattr(os, "_exit", codes.put)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = SocketChannel(theirs)
        ours.sendall(to_line(Following(spec="/s", log="/l")))
        channel.following(0)
        ours.shutdown(socket.SHUT_WR)
        assert codes.get(timeout=30) == LAUNCHER_GONE

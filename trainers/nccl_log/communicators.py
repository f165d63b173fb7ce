"""The communicators of one process, put together from several lines each."""

import re
from dataclasses import replace

from autotune.trainers.nccl_log import patterns
from autotune.trainers.nccl_log.lines import Message
from autotune.trainers.nccl_log.readback import Communicator
from autotune.trainers.nccl_log.state import Bounded, State


class Communicators:
    """Reads the lines of a communicator's life.

    A channel line doesn't name its communicator: it belongs to the one that its thread initialises,
    which is named before it (NCCL 2.16 and newer) or after it (older ones).
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._alive: Bounded[str, Communicator] = Bounded()
        """By address."""
        self._current: Bounded[str, str] = Bounded()
        """By thread, the address of the communicator that it initialises."""
        self._early: Bounded[str, Communicator] = Bounded()
        """By thread, channels of a communicator that isn't named yet."""

    def line(self, message: Message) -> None:
        match = patterns.COMMUNICATOR.match(message.text)
        if not match:
            return
        address = match[2]
        stage = patterns.STAGE.search(message.text)
        if stage and stage[1] in ("Destroy COMPLETE", "Abort COMPLETE"):
            self._end(address)
            return
        known = self._alive.get(address, Communicator())
        known = replace(
            known,
            rank=int(match[3]),
            ranks=int(match[4]),
            nodes=_number(patterns.NODES, message.text, known.nodes),
            local_ranks=_number(patterns.LOCAL_RANKS, message.text, known.local_ranks),
            identity=_text(patterns.IDENTITY, message.text, known.identity),
            split=known.split or match[1] == "ncclCommSplit" or " parent 0x" in message.text,
        )
        self._alive.put(address, known)
        self._current.put(message.thread, address)
        if stage and stage[1] == "Init COMPLETE":
            self._complete(address, message.thread)

    def channels(self, message: Message) -> None:
        match = patterns.CHANNELS.match(message.text)
        if not match:
            return
        address = self._current.get(message.thread)
        known = self._alive.get(address) if address else None
        updated = replace(
            known or Communicator(),
            coll_channels=int(match[1]),
            collnet_channels=int(match[2]) if match[2] else None,
            nvls_channels=int(match[3]) if match[3] else None,
            p2p_channels=int(match[4]),
            p2p_channels_per_peer=int(match[5]),
        )
        if address and known:
            self._alive.put(address, updated)
        else:
            self._early.put(message.thread, updated)

    def finish(self) -> None:
        """Hand over those that still live, and channels that no communicator was named for."""
        for communicator in [*self._alive.values(), *self._early.values()]:
            self._state.add_communicator(communicator)
        self._alive.clear()
        self._early.clear()
        for bounded in (self._alive, self._early):
            self._state.communicators.dropped += bounded.dropped

    def _complete(self, address: str, thread: str) -> None:
        self._current.pop(thread, None)
        early = self._early.pop(thread, None)
        known = self._alive.get(address)
        if known is None:
            return
        if early and known.coll_channels is None:
            known = replace(
                early,
                rank=known.rank,
                ranks=known.ranks,
                nodes=known.nodes,
                local_ranks=known.local_ranks,
                identity=known.identity,
                split=known.split,
            )
        self._alive.put(address, replace(known, complete=True))

    def _end(self, address: str) -> None:
        """A later communicator may get the same address."""
        ended = self._alive.pop(address, None)
        if ended:
            self._state.add_communicator(ended)


def _number(pattern: re.Pattern[str], text: str, default: int | None) -> int | None:
    match = pattern.search(text)
    return int(match[1]) if match else default


def _text(pattern: re.Pattern[str], text: str, default: str) -> str:
    match = pattern.search(text)
    return match[1] if match else default

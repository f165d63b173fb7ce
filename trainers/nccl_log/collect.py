"""The messages of one process, line by line."""

from collections.abc import Callable
from dataclasses import replace

from autotune.trainers.nccl_log import patterns
from autotune.trainers.nccl_log.communicators import Communicators
from autotune.trainers.nccl_log.lines import Message
from autotune.trainers.nccl_log.matrix import Matrix
from autotune.trainers.nccl_log.network import Network
from autotune.trainers.nccl_log.readback import Choice, NcclReadback, Pattern
from autotune.trainers.nccl_log.state import LONGEST_TEXT, Bounded, State

_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
_PATTERNS = ("", "balanced tree", "split tree", "tree", "ring", "nvls", "collnet direct")
_SELECTIONS = ("NCCL_PROTO", "NCCL_ALGO")
"""In the order in which NCCL reads them."""
_NO_KERNEL = ("Count", "Unknown", "Invalid")


class Collector:
    """Everything that one process has logged."""

    def __init__(self) -> None:
        self.state = State(single=NcclReadback(processes=1))
        self.matrix = Matrix(self.state)
        self._messages = self._torn = 0
        self._network = Network(self.state)
        self._communicators = Communicators(self.state)
        self._asked: Bounded[str, tuple[str, int]] = Bounded()
        """By thread: collective and size of the last `Input:` line."""
        self._rules: tuple[tuple[str, Callable[[Message], None]], ...] = (
            (" set ", self._taken),
            (" Bytes -> Algo ", self._choice),
            (" via ", self._network.link),
            ("comm 0x", self._communicators.line),
            (" coll channels", self._communicators.channels),
            ("Pattern ", self._pattern),
            ("Input: {", self._input),
            ("Best tuning {", self._best),
            ("NET/", self._network.line),
            ("Using network ", self._network.used),
            ("NET plugin ", self._network.plugin_state),
            ("network plugin ", self._network.plugin_state),
            ("P2P Chunksize ", self._p2p_chunk),
            ("NVLS multicast ", self._nvls),
            ("NCCL_", self._refused),
            ("algorithm/protocol ", self._no_algorithm),
            ("Unrecognized ", self._bad_selection),
            ("All entries except ", self._bad_selection),
            ("CTAs ", self._note),
            ("User asked for ", self._note),
        )

    def add(self, message: Message) -> None:
        """Read one message; a torn one is only counted."""
        self._messages += 1
        self._torn += message.torn
        self.matrix.close()
        if message.torn:
            return
        if message.level == "WARN":
            self.state.warnings.add(message.text[:LONGEST_TEXT])
        if message.text.startswith("Enabled NCCL Func/Proto/Algo Matrix"):
            self.matrix.open()
        self.version(message.text)
        for needle, rule in self._rules:
            if needle in message.text:
                rule(message)

    def version(self, text: str) -> None:
        """Read the version, which older ones print without the usual head."""
        match = patterns.VERSION.search(text) if "NCCL version " in text else None
        if match and not self.state.single.nccl_version:
            self.state.single = replace(
                self.state.single, nccl_version=match[1], cuda_version=match[2] or ""
            )

    def readback(self) -> NcclReadback:
        self._network.finish()
        self._communicators.finish()
        return replace(self.state.readback(), messages=self._messages, torn=self._torn)

    def _taken(self, message: Message) -> None:
        if match := patterns.TAKEN.match(message.text):
            name, value = match[1], (match[2] or "").strip()
            # A dot ends the sentence after a number only.
            number = value.removesuffix(".")
            if number.lstrip("-").isdigit():
                value = number
            self.state.environment.put(name, value[:LONGEST_TEXT])

    def _refused(self, message: Message) -> None:
        head = patterns.NET_PREFIX.match(message.text)
        for pattern in patterns.REFUSED:
            if match := pattern.match(message.text, head.end() if head else 0):
                self.state.refused.put(match[1], message.text[:LONGEST_TEXT])
        if patterns.NOTE.match(message.text):
            self._note(message)

    def _no_algorithm(self, message: Message) -> None:
        if patterns.NO_ALGORITHM.match(message.text):
            named = [name for name in _SELECTIONS if f"{name} was set" in message.text]
            for name in named or [n for n in _SELECTIONS if n in self.state.environment]:
                self.state.refused.put(name, message.text[:LONGEST_TEXT])

    def _bad_selection(self, message: Message) -> None:
        """NCCL stops at an error: the variable read last has it."""
        if patterns.BAD_SELECTION.match(message.text):
            read = [name for name in _SELECTIONS if name in self.state.environment]
            for name in read[-1:] or _SELECTIONS:
                self.state.refused.put(name, message.text[:LONGEST_TEXT])

    def _choice(self, message: Message) -> None:
        match = patterns.CHOICE.match(message.text)
        if not match:
            return
        low, high = match[5], match[6]
        choice = Choice(
            collective=match[1] or "",
            size_bytes=int(match[2]),
            algorithm=_named(match[3], _ALGORITHMS),
            protocol=_named(match[4], _PROTOCOLS),
            channels=int(high) - int(low) + 1 if low and int(high) >= int(low) else None,
        )
        self.state.choices.add(choice)

    def _input(self, message: Message) -> None:
        if match := patterns.INPUT.search(message.text):
            self._asked.put(message.thread, (match[1], int(match[2])))

    def _best(self, message: Message) -> None:
        match = patterns.BEST.search(message.text)
        collective, size = self._asked.pop(message.thread, ("", None))
        if not match:
            return
        general = match[1] != "Unknown" and match[2] != "Unknown"
        kernel = "" if general or match[3] in _NO_KERNEL else match[3]
        channels = patterns.BEST_CHANNELS.search(message.text)
        if general or kernel:
            choice = Choice(
                collective=collective,
                size_bytes=size,
                algorithm=match[1] if general else "",
                protocol=match[2] if general else "",
                channels=int(channels[1]) if channels else None,
                kernel=kernel,
            )
            self.state.choices.add(choice)

    def _pattern(self, message: Message) -> None:
        if match := patterns.PATTERN.match(message.text):
            pattern = Pattern(
                pattern=_named(match[1], _PATTERNS),
                cross_nic=int(match[2]),
                channels=int(match[3]),
                bandwidth_intra=float(match[4]),
                bandwidth_inter=float(match[5]),
                type_intra=match[6],
                type_inter=match[7],
                same_channels=match[8] == "1",
            )
            self.state.patterns.add(pattern)

    def _p2p_chunk(self, message: Message) -> None:
        if match := patterns.P2P_CHUNK.match(message.text):
            self.state.single = replace(self.state.single, p2p_chunk_bytes=int(match[1]))

    def _nvls(self, message: Message) -> None:
        if match := patterns.NVLS.match(message.text):
            self.state.single = replace(self.state.single, nvls=match[1] is None)

    def _note(self, message: Message) -> None:
        if patterns.NOTE.match(message.text):
            self.state.notes.add(message.text[:LONGEST_TEXT])


def _named(number: str, names: tuple[str, ...]) -> str:
    """NCCL 2.20 to 2.23 log numbers where newer ones log names."""
    if number.isdigit() and int(number) < len(names):
        return names[int(number)] or number
    return number

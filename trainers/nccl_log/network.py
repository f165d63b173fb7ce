"""Which network NCCL uses, what its plugin did, and how ranks are linked."""

from dataclasses import replace

from autotune.trainers.nccl_log import patterns
from autotune.trainers.nccl_log.lines import Message
from autotune.trainers.nccl_log.state import LONGEST_TEXT, State

_ABSENT = ("Could not find", "No plugin found", "No such file")
_UNLOADABLE = ("not found", "undefined symbol", "cannot open")
_INTERNAL = ("IB", "Socket")
_TRANSPORTS = ("P2P", "SHM", "NET", "COLLNET")
_KIB, _MIB = 1 << 10, 1 << 20


class Network:
    """Reads the NET lines of one process."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._present = ""
        """A line that shows that a network plugin is installed."""
        self._failed = ""
        """A line that shows that it didn't start."""

    def line(self, message: Message) -> None:
        text = message.text
        if text.startswith("NET/OFI"):
            self._of_aws(text)
        elif text.startswith("NET/Plugin"):
            self._of_plugin(text)
        elif text.startswith(("NET/Socket", "NET/IB")):
            self._of_internal(text)

    def used(self, message: Message) -> None:
        if match := patterns.NETWORK.match(message.text):
            self._state.single = replace(self._state.single, network=match[1].strip())

    def plugin_state(self, message: Message) -> None:
        """Read that a plugin was loaded or, from NCCL 2.27 on, that it didn't start."""
        text = message.text
        if text.startswith("Successfully loaded external network plugin"):
            self._present = text[:LONGEST_TEXT]
            return
        failed = text.startswith("Failed to initialize NET plugin ")
        # Every machine without InfiniBand says so of IB.
        if failed and text.rpartition(" ")[2] not in _INTERNAL:
            self._failed = self._failed or text[:LONGEST_TEXT]

    def link(self, message: Message) -> None:
        """Read `Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Libfabric/0/GDRDMA/Shared`."""
        if not message.text.startswith(("Channel ", "CollNet ")):
            return
        route = message.text.rpartition(" via ")[2]
        # The spelling of NCCL 2.10.
        path = route.replace("direct shared memory", "SHM/direct").split("/")
        if path[0] not in _TRANSPORTS or len(path) < 2:
            return
        detail = path[1:2] if path[0] in ("NET", "COLLNET") or path[1] == "indirect" else path[1:3]
        transport = "/".join([path[0], *detail])
        self._state.links.add((transport[:64], "GDRDMA" in path))

    def finish(self) -> None:
        """Decide whether sockets are what the user wanted."""
        single = self._state.single
        asked_for = self._state.environment.get("NCCL_NET", "").casefold() == "socket"
        if single.network == "Socket" and not asked_for:
            self._state.single = replace(single, fallback=self._failed or self._present)

    def _of_aws(self, text: str) -> None:
        self._present = self._present or text[:LONGEST_TEXT]
        if "fail" in text.casefold() or "No eligible providers" in text:
            self._failed = self._failed or text[:LONGEST_TEXT]
        if patterns.FORCED_SIMPLE.search(text) and not self._state.single.forced_simple:
            self._state.single = replace(self._state.single, forced_simple=text[:LONGEST_TEXT])
        if match := patterns.PLUGIN.search(text):
            self._state.single = replace(self._state.single, plugin=f"{match[1]} {match[2]}")
        if match := patterns.PROVIDER.search(text):
            self._state.single = replace(
                self._state.single, provider=match[1], nics=int(match[2]) if match[2] else None
            )
        for pattern in patterns.INJECTED:
            injection = pattern.search(text)
            if injection:
                self._state.injected.put(injection[1], _bytes(injection[2].strip()))
                break

    def _of_plugin(self, text: str) -> None:
        if any(phrase in text for phrase in _ABSENT):
            return
        if "Loaded net plugin" in text:
            self._present = text[:LONGEST_TEXT]
            name = text.partition("Loaded net plugin ")[2]
            if not self._state.single.plugin:
                self._state.single = replace(self._state.single, plugin=name[:64])
        elif "libnccl-net" in text and any(phrase in text for phrase in _UNLOADABLE):
            self._failed = self._failed or text[:LONGEST_TEXT]

    def _of_internal(self, text: str) -> None:
        for device in patterns.DEVICE.finditer(text):
            self._state.devices.add(device[1])
        if match := patterns.SOCKETS.search(text):
            self._state.single = replace(
                self._state.single,
                socket_threads=int(match[1]),
                sockets_per_thread=int(match[2]),
            )


def _bytes(value: str) -> str:
    """512KiB, as the plugin writes it, in the bytes that it sets."""
    for suffix, factor in (("KiB", _KIB), ("MiB", _MIB)):
        number = value.removesuffix(suffix)
        if number != value and number.isascii() and number.isdigit() and len(number) < 10:
            return str(int(number) * factor)
    return value[:LONGEST_TEXT]

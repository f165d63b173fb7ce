"""What a rank was at when its trial hung, and which rank the others wait for. Pure."""

import json
import re
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_THREAD = re.compile(r"^(?:Current t|T)hread 0x[0-9a-f]+.*most recent call first", re.MULTILINE)
_FRAME = re.compile(r'^ +File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.+)$')
_WAITING = ("/torch/distributed/", "/torch/cuda/", "/torch/autograd/graph.py")
"""Where a rank is that waits for others: in a collective, for the GPU, or in a backward pass, which
waits for its collectives in C++."""
_STDLIB = sysconfig.get_path("stdlib") + "/"
_LIBRARIES = ("/site-packages/torch/", "/dist-packages/torch/", "<frozen ", _STDLIB)
_PACKAGES = ("/site-packages/", "/dist-packages/")
_STATES = {"T": "is stopped by a signal (SIGSTOP)", "D": "is stuck in the kernel"}


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One call of a Python stack."""

    file: str
    line: int
    function: str

    @property
    def is_library(self) -> bool:
        """Of PyTorch or Python, and not of whoever uses them."""
        if "/torch/" not in self.file and any(part in self.file for part in _PACKAGES):
            return False
        return any(part in self.file for part in _LIBRARIES)

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What one living rank was at."""

    rank: int
    state: str = ""
    """Of its process, as in proc_pid_stat(5): `T` is stopped, `D` can't be interrupted."""
    frames: tuple[Frame, ...] = ()
    """Of its main thread, the innermost first; empty if it didn't say."""
    called: Mapping[int, int] = field(default_factory=dict)
    """How many collectives of each process group it has called, by its flight recorder."""
    last_call: str = ""
    """The collective that it called last."""

    @property
    def waits(self) -> bool:
        return bool(self.frames) and any(part in self.frames[0].file for part in _WAITING)

    @property
    def is_held(self) -> bool:
        """It can't run, whatever its program."""
        return self.state in _STATES

    def describe(self) -> str:
        """A clause that follows `rank N`."""
        if self.is_held:
            return _STATES[self.state]
        if not self.frames:
            return "does not say where it is"
        own = next((frame for frame in self.frames if not frame.is_library), self.frames[0])
        what = f"waits in {self.last_call}, called" if self.waits and self.last_call else "is"
        return f"{what} at {own}"


def read_stack(text: str) -> tuple[Frame, ...]:
    """The main thread's frames in what faulthandler has written; empty if there is none."""
    blocks = _THREAD.split(text)[1:]
    stacks = [tuple(_frames(block)) for block in blocks]
    return next((frames for frames in stacks if frames and _is_main(frames)), ())


def _frames(block: str) -> list[Frame]:
    found = []
    for line in block.splitlines()[1:]:
        match = _FRAME.match(line)
        if match is None:
            break
        found.append(Frame(file=match["file"], line=int(match["line"]), function=match["function"]))
    return found


def _is_main(frames: Sequence[Frame]) -> bool:
    """Other threads begin in Python's threading module, or in a library's."""
    return not frames[-1].file.endswith("/threading.py")


def read_flight(text: str) -> tuple[dict[int, int], str]:
    """Collectives called by process group, and the last one's name, from a flight record.

    Empty for anything that isn't one: PyTorch promises nothing of its form.
    """
    try:
        record: Any = json.loads(text)
        called = {
            int(group): int(status["last_enqueued_collective"])
            for group, status in record.get("pg_status", {}).items()
        }
        entries = record.get("entries", [])
        return called, str(entries[-1]["profiling_name"]) if entries else ""
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}, ""


def behind(standings: Sequence[Standing]) -> Standing | None:
    """The rank that the others wait for; None if nothing tells.

    A rank that can't run is; else one that has called fewer collectives than others; else the only
    ones that don't wait themselves, the lowest rank first.
    """
    held = [one for one in standings if one.is_held]
    if held:
        return held[0]
    late = max(standings, key=lambda one: _missing(one, standings), default=None)
    if late is not None and _missing(late, standings):
        return late
    busy = [one for one in standings if not one.waits]
    return busy[0] if 0 < len(busy) < len(standings) else None


def _missing(one: Standing, standings: Sequence[Standing]) -> int:
    """Collectives of its groups that others have called and it hasn't."""
    return sum(
        max(other.called.get(group, 0) for other in standings) - count
        for group, count in one.called.items()
    )


def describe(standings: Sequence[Standing]) -> str:
    """Who is where, the rank that is behind first; cut to two ranks."""
    late = behind(standings)
    order = sorted(standings, key=lambda one: one is not late)
    return "; ".join(f"rank {one.rank} {one.describe()}" for one in order[:2])

"""The matrix of enabled algorithms and protocols, which spans lines without the usual head."""

from autotune.trainers.nccl_log.readback import Enabled
from autotune.trainers.nccl_log.state import State

_MOST_ROWS = 32


class Matrix:
    """Reads `function | protocols | algorithms [| symmetric kernels]`, a header and rows of ints.

    A row that doesn't fit the header is left out: another process may have written into it.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._rows_left = 0
        self._first = 0
        self._protocols: tuple[str, ...] = ()
        self._algorithms: tuple[str, ...] = ()

    def open(self) -> None:
        self._rows_left, self._first = _MOST_ROWS, 0
        self._protocols = self._algorithms = ()

    def close(self) -> None:
        self._rows_left = 0

    @property
    def is_open(self) -> bool:
        return self._rows_left > 0

    def line(self, text: str) -> None:
        """Read a line that came after the matrix was opened."""
        self._rows_left -= 1
        cells = text.split("|")
        # A log collector may have put cells of its own in front.
        heads = [i for i, cell in enumerate(cells) if _function(cell) == "Function"]
        if heads:
            self._first = heads[0]
        cells = cells[self._first :]
        if len(cells) < 3:
            return
        function = _function(cells[0])
        protocols, algorithms = tuple(cells[1].split()), tuple(cells[2].split())
        if heads:
            self._protocols, self._algorithms = protocols[:32], algorithms[:32]
        elif function.isidentifier() and self._fits(protocols, algorithms):
            row = Enabled(
                collective=function,
                algorithms=_enabled(self._algorithms, algorithms),
                protocols=_enabled(self._protocols, protocols),
            )
            self._state.enabled.put(function, row)

    def _fits(self, protocols: tuple[str, ...], algorithms: tuple[str, ...]) -> bool:
        return (
            len(protocols) == len(self._protocols) > 0
            and len(algorithms) == len(self._algorithms) > 0
            and all(flag in ("0", "1", "2") for flag in protocols + algorithms)
        )


def _function(cell: str) -> str:
    """The name at the end of a row's first cell, behind a launcher's prefix."""
    word = (cell.split() or [""])[-1]
    return word[max(word.rfind(":"), word.rfind(">")) + 1 :][:40]


def _enabled(names: tuple[str, ...], flags: tuple[str, ...]) -> tuple[str, ...]:
    """The names whose flag isn't 0; 2 is LL128 where NCCL itself thinks it safe."""
    return tuple(name[:40] for name, flag in zip(names, flags, strict=True) if flag != "0")

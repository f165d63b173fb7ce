"""Remembers what was worked out from a part of a mapping, by the part that was really looked at."""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from autotune.model import KnobValue

Result = TypeVar("Result")
_Names = tuple[str, ...]
_Seen = tuple[tuple[type, KnobValue | None], ...]


class Memo(Generic[Result]):
    """Calls a pure function of a mapping once for each combination of values that it looks at.

    A knob's values depend on few of the knobs before it, and a search asks for them thousands of
    times. Which ones is seen and not declared, so that nothing can be forgotten.
    """

    def __init__(self, function: Callable[[Mapping[str, KnobValue]], Result]) -> None:
        self._function = function
        self._known: dict[_Names, dict[_Seen, Result]] = {}

    def __call__(self, values: Mapping[str, KnobValue]) -> Result:
        for names, results in self._known.items():
            seen = _seen(names, values)
            if seen in results:
                return results[seen]
        watched = _Watched(values)
        result = self._function(watched)
        names = tuple(watched.names)
        self._known.setdefault(names, {})[_seen(names, values)] = result
        return result


class _Watched(Mapping[str, KnobValue]):
    """A mapping that notes which of its names are asked for."""

    def __init__(self, values: Mapping[str, KnobValue]) -> None:
        self.names: dict[str, None] = {}
        self._values = values

    def __getitem__(self, name: str) -> KnobValue:
        self.names[name] = None
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        raise TypeError("a rule looks at the knobs that it names, not at all of them")

    def __len__(self) -> int:
        raise TypeError("a rule looks at the knobs that it names, not at all of them")


def _seen(names: _Names, values: Mapping[str, KnobValue]) -> _Seen:
    # True and 1 are different values here.
    return tuple([(type(value), value) for value in map(values.get, names)])

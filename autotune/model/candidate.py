"""A candidate: one value for every knob that applies."""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType

KnobValue = bool | int | float | str

DEFAULT = "default"
"""The value of a knob that is left alone, so that the framework's own default holds."""


class Candidate(Mapping[str, KnobValue]):
    """An immutable mapping of knob name to value, equal by content.

    `True` and `1` are different values here, unlike in Python's own comparison: a boolean and an
    integer reshard_after_forward mean different things.
    """

    def __init__(self, values: Mapping[str, KnobValue]) -> None:
        self._values = MappingProxyType(dict(values))
        self.key = json.dumps(dict(values), sort_keys=True)

    def __getitem__(self, name: str) -> KnobValue:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Candidate) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Candidate({self.key})"

    def __reduce__(self) -> tuple[type["Candidate"], tuple[dict[str, KnobValue]]]:
        return Candidate, (dict(self),)  # the proxy can't be copied or sent anywhere

    def differences(self, other: "Candidate") -> dict[str, KnobValue]:
        """The knobs whose value here isn't `other`'s, in this candidate's order."""
        return {
            name: value
            for name, value in self.items()
            if json.dumps(value) != json.dumps(other.get(name))
        }

"""What candidates differ in, as terms of a model: one for each value, one for each pair."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from autotune.model import Candidate, KnobValue
from autotune.report.text import shown

STRATEGY = "strategy"
"""The knob that decides which others exist."""


@dataclass(frozen=True, kw_only=True)
class Value:
    """A knob at a value in place of another one.

    `along` are values of other knobs that no candidate had without it, nor it without them: their
    effects can't be told apart (in the design of experiments they are aliases).
    """

    knob: str
    value: str
    instead_of: str
    """The baseline's value. Of a knob that the baseline doesn't have, the one that was launched
    first with the same strategy: what differs from the baseline then, is counted as the
    strategy's."""
    along: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        others = ", ".join(f"{knob}={value}" for knob, value in self.along)
        return f"{self.knob}={self.value}" + (f" (with {others})" if others else "")


Term = tuple[Value, ...]
"""One value, or two that were tried together."""


def values_of(candidates: Sequence[Candidate], baseline: Candidate) -> list[Term]:
    """For each candidate, in the order of their launches, its values; aliases as one."""
    references = _references(candidates, baseline)
    plain = [_differences(candidate, references) for candidate in candidates]
    holders: dict[Value, list[int]] = {}
    for index, values in enumerate(plain):
        for value in values:
            holders.setdefault(value, []).append(index)
    together: dict[tuple[int, ...], list[Value]] = {}
    for value, indices in holders.items():
        together.setdefault(tuple(indices), []).append(value)
    found: list[Term] = [() for _ in candidates]
    for group, aliases in together.items():
        for index in group:
            found[index] += (_as_one(aliases),)
    return found


def pairs_of(values: Sequence[Value]) -> list[Term]:
    """The pairs of a candidate's values, each in one order."""
    return list(combinations(sorted(values, key=lambda v: (v.knob, v.value)), 2))


_References = Mapping[tuple[str, str], KnobValue]
"""By strategy and knob, the value that others are seen beside."""


def _references(candidates: Iterable[Candidate], baseline: Candidate) -> _References:
    found: dict[tuple[str, str], KnobValue] = {}
    for candidate in candidates:
        for name, value in candidate.items():
            found.setdefault((_strategy(candidate), name), baseline.get(name, value))
    return found


def _differences(candidate: Candidate, references: _References) -> list[Value]:
    found = []
    for name, value in candidate.items():
        reference = references[_strategy(candidate), name]
        # True and 1 are different values.
        if json.dumps(value) != json.dumps(reference):
            found.append(Value(knob=name, value=shown(value), instead_of=shown(reference)))
    return found


def _strategy(candidate: Candidate) -> str:
    return str(candidate.get(STRATEGY, ""))


def _as_one(aliases: Sequence[Value]) -> Value:
    first, *others = aliases
    along = tuple((other.knob, other.value) for other in others)
    return Value(knob=first.knob, value=first.value, instead_of=first.instead_of, along=along)

"""How a candidate's true speed follows from its layout: factors on the defaults' speed."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from autotune.errors import FieldError
from autotune.executors.landscapes.chance import MOST_PERCENT, generator, spread
from autotune.executors.landscapes.layout import Layout, changes, check_condition, key
from autotune.model import KnobValue
from autotune.space.conditions import Condition, all_hold

LARGE = (
    "strategy",
    "reshard_after_forward",
    "shard_size",
    "accumulation_steps",
    "activation_checkpointing",
)
"""Settings that change what is communicated; the others change how."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a part of the layouts is faster or slower by."""

    when: Condition = field(default_factory=dict)
    """Settings and variables, each with its value, a list of values, or a comparison."""
    percent: float

    def __post_init__(self) -> None:
        check_condition(self.when)
        if not -100 < self.percent <= 10_000:
            raise FieldError("percent", self.percent, "has to be above -100 and at most 10000")


@dataclass(frozen=True, kw_only=True)
class Effects:
    """Factors that multiply. Those drawn by chance are drawn once for a seed, and stay."""

    rules: tuple[Rule, ...] = ()
    value_percent: float = 0.0
    """Standard deviation of the effect of each value that isn't a default, by itself."""
    pair_percent: float = 0.0
    """Standard deviation of what each large setting and each other value do together."""
    rugged_percent: float = 0.0
    """Standard deviation of what each candidate has for itself, like none of its neighbours."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("value_percent", "pair_percent", "rugged_percent"):
            if not 0 <= getattr(self, name) <= MOST_PERCENT:
                rule = f"has to be from 0 to {MOST_PERCENT:g}"
                raise FieldError(name, getattr(self, name), rule)

    def failure(self, layout: Layout) -> None:
        """Nothing fails by its speed."""
        del layout

    def factor(self, layout: Layout) -> float:
        """The layout's speed over the defaults'."""
        result = combined(self.rules, layout)
        for percent, name in self._draws(changes(layout)):
            result *= spread(generator(self.seed, name), percent)
        return result

    def _draws(self, values: Mapping[str, KnobValue]) -> Iterator[tuple[float, str]]:
        if self.value_percent:
            yield from ((self.value_percent, _text(name, values)) for name in values)
        if self.pair_percent:
            large = [name for name in values if name in LARGE]
            others = [name for name in values if name not in LARGE]
            for first, second in product(large, others):
                yield self.pair_percent, f"{_text(first, values)} {_text(second, values)}"
        if self.rugged_percent and values:
            yield self.rugged_percent, key(values)


def combined(rules: tuple[Rule, ...], layout: Layout) -> float:
    """The product of the rules that hold."""
    result = 1.0
    for rule in rules:
        if all_hold(rule.when, layout):
            result *= 1 + rule.percent / 100
    return result


def _text(name: str, values: Mapping[str, KnobValue]) -> str:
    return f"{name}={json.dumps(values[name])}"

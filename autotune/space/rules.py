"""Rules that compute a knob's values where a fixed list can't: divisors of batches and of ranks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotune.model import KnobValue
from autotune.space.facts import Facts

Values = Mapping[str, KnobValue]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Computes the values of a knob; `depends` names the knobs whose values it looks at."""

    values: Callable[[Values, Facts], list[KnobValue]]
    depends: tuple[str, ...] = ()


_MAX_ACCUMULATION = 16


def accumulation_steps(values: Values, facts: Facts) -> list[KnobValue]:
    """Powers of two that leave a whole micro-batch at the fixed global batch."""
    del values
    per_rank = facts.global_batch // facts.ranks
    steps = (2**power for power in range(_MAX_ACCUMULATION.bit_length()))
    return [step for step in steps if step <= per_rank and per_rank % step == 0]


def reshard_after_forward(values: Values, facts: Facts) -> list[KnobValue]:
    """What the strategy leaves open: group sizes that divide the shard group, or nothing."""
    strategy = values.get("strategy")
    if strategy == "fsdp_grad_op":
        return [False]
    if strategy == "hybrid":
        return [True, False]
    # A group of all ranks is True, a group of one is False.
    return [True, *_proper_divisors(facts.ranks)]


def shard_size(values: Values, facts: Facts) -> list[KnobValue]:
    """Ranks per shard group: one node's ranks first, so that only replicas cross the network."""
    del values
    sizes = _proper_divisors(facts.ranks)
    preferred = facts.ranks_per_node if facts.ranks_per_node in sizes else max(sizes, default=0)
    return sorted(sizes, key=lambda size: (size != preferred, size))


def _proper_divisors(number: int) -> list[int]:
    return [divisor for divisor in range(2, number) if number % divisor == 0]


RULES: dict[str, Rule] = {
    "accumulation_steps": Rule(values=accumulation_steps),
    "reshard_after_forward": Rule(values=reshard_after_forward, depends=("strategy",)),
    "shard_size": Rule(values=shard_size),
}

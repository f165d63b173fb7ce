"""Rules that judge a knob's values where a fixed list can't: divisors, versions, machines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotune.model import BFLOAT16_FROM, DEFAULT, DeviceKind, Dtype, KnobValue
from autotune.space import nccl_rules
from autotune.space.facts import Facts

Values = Mapping[str, KnobValue]
Judge = Callable[[KnobValue, Values, Facts], str]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Decides which values a knob has; `depends` names the knobs whose values it looks at."""

    judge: Judge
    """Why a value doesn't exist here, as a clause; empty if it does."""
    values: Callable[[Values, Facts], list[KnobValue]] | None = None
    """The values to judge when the knob lists none."""
    depends: tuple[str, ...] = ()
    meaning: Callable[[Facts], KnobValue | None] | None = None
    """What the value `default` comes to where that depends on the machine; None if not known."""


_MAX_ACCUMULATION = 16


def _steps(values: Values, facts: Facts) -> list[KnobValue]:
    """Powers of two that leave a whole micro-batch at the fixed global batch."""
    steps = (2**power for power in range(_MAX_ACCUMULATION.bit_length()))
    return [step for step in steps if not _steps_problem(step, values, facts)]


def _steps_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    del values
    per_rank = facts.global_batch // facts.ranks
    if isinstance(value, int) and 1 <= value <= per_rank and per_rank % value == 0:
        return ""
    return f"doesn't divide the {per_rank} samples of a rank"


def _reshards(values: Values, facts: Facts) -> list[KnobValue]:
    """What the strategy leaves open: group sizes that divide the shard group, or nothing."""
    possible: dict[str, list[KnobValue]] = {
        "fsdp_full": [True, *_proper_divisors(facts.ranks)],
        "fsdp_grad_op": [False],
        "hybrid": [True, False],
    }
    return possible.get(str(values.get("strategy")), [])


def _reshard_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    # A group of all ranks is True, a group of one is False.
    possible = _reshards(values, facts)
    if any(value == p and isinstance(value, bool) == isinstance(p, bool) for p in possible):
        return ""
    return f"isn't possible with strategy {values.get('strategy')} and {facts.ranks} ranks"


def _shard_sizes(values: Values, facts: Facts) -> list[KnobValue]:
    """Ranks per shard group: one node's ranks first, so that only replicas cross the network."""
    del values
    sizes = _proper_divisors(facts.ranks)
    preferred = facts.ranks_per_node if facts.ranks_per_node in sizes else max(sizes, default=0)
    return [*sorted(sizes, key=lambda size: (size != preferred, size))]


def _shard_size_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    del values
    return "" if value in _proper_divisors(facts.ranks) else f"doesn't divide {facts.ranks} ranks"


def _proper_divisors(number: int) -> list[int]:
    return [divisor for divisor in range(2, number) if number % divisor == 0]


def _group_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    del values
    if value == 1:
        return ""
    if not facts.blocks:
        return "needs to know how many blocks the workload has"
    is_more = isinstance(value, int) and value > facts.blocks
    return f"is more than the workload's {facts.blocks} blocks" if is_more else ""


def _prefetch_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    size = values.get("blocks_per_group", 1)
    if not facts.blocks or not isinstance(value, int) or not isinstance(size, int):
        return ""
    groups = -(-facts.blocks // size)
    # The group after the next one is the first that isn't gathered ahead anyway.
    return "" if value == 0 or value < groups else f"reaches past the {groups} groups there are"


def _default_dtype(facts: Facts) -> KnobValue | None:
    if facts.device is DeviceKind.CPU:
        return Dtype.FLOAT32.value
    if not facts.compute_capability:
        return None
    return (Dtype.BFLOAT16 if facts.compute_capability >= BFLOAT16_FROM else Dtype.FLOAT32).value


def _dtype_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    del values
    is_old = facts.device is DeviceKind.CUDA and 0 < facts.compute_capability < BFLOAT16_FROM
    if value == Dtype.BFLOAT16 and is_old:
        major, minor = divmod(facts.compute_capability, 10)
        return f"needs GPUs of compute capability 8.0 or later, and theirs is {major}.{minor}"
    return ""


def _threads(values: Values, facts: Facts) -> list[KnobValue]:
    del values
    share = facts.cores // facts.ranks_per_node
    powers = [2**power for power in range(share.bit_length())]
    return [DEFAULT, *(power for power in powers if power <= share)]


def _threads_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    del values
    if value == DEFAULT:
        return ""
    share = _share(facts)
    is_more = isinstance(value, int) and value > share
    return f"is more than each rank's share of the cores, {share}" if is_more else ""


def _share(facts: Facts) -> int:
    return max(1, facts.cores // facts.ranks_per_node)


RULES: dict[str, Rule] = {
    "strategy": Rule(judge=nccl_rules.strategy_problem),
    "ofi_protocol": Rule(judge=nccl_rules.ofi_protocol_problem),
    "accumulation_steps": Rule(judge=_steps_problem, values=_steps),
    "reshard_after_forward": Rule(judge=_reshard_problem, values=_reshards, depends=("strategy",)),
    "shard_size": Rule(judge=_shard_size_problem, values=_shard_sizes),
    "blocks_per_group": Rule(judge=_group_problem),
    "prefetch": Rule(judge=_prefetch_problem, depends=("blocks_per_group",)),
    "compute_dtype": Rule(judge=_dtype_problem, meaning=_default_dtype),
    "cpu_threads": Rule(judge=_threads_problem, values=_threads, meaning=_share),
    "force_sum_reduction": Rule(judge=nccl_rules.sum_problem, depends=nccl_rules.JOB[:-1]),
    "nccl_channels": Rule(judge=nccl_rules.channels_problem),
    "nccl_algorithm": Rule(judge=nccl_rules.algorithm_problem, depends=nccl_rules.JOB),
    "nccl_protocol": Rule(
        judge=nccl_rules.protocol_problem, depends=(*nccl_rules.JOB, "nccl_algorithm")
    ),
    "nccl_sockets": Rule(judge=nccl_rules.sockets_problem, depends=("nccl_socket_nthreads",)),
}

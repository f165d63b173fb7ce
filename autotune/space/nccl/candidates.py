"""The algorithms and protocols that a study may try, and why not the others."""

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.errors import FieldError
from autotune.model import DEFAULT, ShardingStrategy
from autotune.space.nccl.algorithms import (
    COLLECTIVES,
    Algorithm,
    Protocol,
    available,
    protocols_of,
    supported,
)
from autotune.space.nccl.collectives import (
    Collective,
    collectives_of,
    heavy_collectives,
    heavy_groups,
)
from autotune.space.nccl.fabric import Fabric
from autotune.space.nccl.grammar import PER_FUNCTION_FROM, nccl_algo, nccl_proto
from autotune.space.nccl.protocols import safe
from autotune.space.nccl.version import NcclVersion


@dataclass(frozen=True, kw_only=True)
class Job:
    """What decides on the choices: NCCL, the strategy, and the ranks it runs on."""

    version: NcclVersion
    strategy: ShardingStrategy
    world: Fabric
    shard_size: int | None = None
    """Hybrid only: ranks per shard group."""
    reshard_size: int | None = None
    """An integer reshard_after_forward."""
    sums: bool | None = None
    """Whether gradients are summed rather than averaged in NCCL; None is the framework's habit:
    DDP sums, FSDP2 averages (unless told by set_force_sum_reduction_for_comms)."""

    @property
    def reduction_is_sum(self) -> bool:
        return self.strategy is ShardingStrategy.DDP if self.sums is None else self.sums

    def groups(self, collective: Collective) -> tuple[Fabric, ...]:
        """Communicators on which `collective` is heavy, those of one rank left aside."""
        groups = heavy_groups(
            self.strategy,
            self.world,
            shard_size=self.shard_size,
            reshard_size=self.reshard_size,
        )
        return tuple(group for group in groups[collective] if group.ranks > 1)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One value of the algorithm or protocol knob."""

    value: str
    """`default`, or the name of an algorithm or protocol."""
    reason: str = ""
    """Why it is left out, a sentence; empty if it may be tried."""
    caution: str = ""
    """What its user should know."""


_ALONE = "there is one rank, which communicates with nobody"


def algorithm_choices(job: Job) -> list[Choice]:
    """All algorithms, `default` first; those with a reason are left out."""
    choices = [Choice(value=DEFAULT)]
    for algorithm in Algorithm:
        reason = _algorithm_problem(job, algorithm)
        caution = "" if reason else _caution(algorithm)
        choices.append(Choice(value=algorithm.value, reason=reason, caution=caution))
    return choices


def protocol_choices(job: Job, algorithm: str = DEFAULT) -> list[Choice]:
    """All protocols beside a choice of algorithm, `default` first."""
    others = [Choice(value=p.value, reason=_protocol_problem(job, p, algorithm)) for p in Protocol]
    return [Choice(value=DEFAULT), *others]


def algorithm_variables(job: Job, value: str) -> dict[str, str]:
    """The variables for a choice of algorithm. Raises FieldError if it is left out."""
    if value == DEFAULT:
        return {}
    _check("nccl_algorithm", value, algorithm_choices(job))
    return {"NCCL_ALGO": nccl_algo(job.version, planned(job, value))}


def protocol_variables(job: Job, value: str, algorithm: str = DEFAULT) -> dict[str, str]:
    """The variables for a choice of protocol. Raises FieldError if it is left out."""
    if value == DEFAULT:
        return {}
    _check("nccl_protocol", value, protocol_choices(job, algorithm))
    wanted = {c: Protocol(value) for c in heavy_collectives(job.strategy)}
    return {"NCCL_PROTO": nccl_proto(job.version, wanted)}


def planned(job: Job, value: str) -> Mapping[Collective, Algorithm]:
    """The heavy collectives that a choice of algorithm applies to: those that have it.

    They have it on every communicator they run on. The others keep NCCL's own choice.
    """
    if value == DEFAULT:
        return {}
    algorithm = Algorithm(value)
    return {
        collective: algorithm
        for collective in heavy_collectives(job.strategy)
        if not _unsupported(job, algorithm, collective)
    }


def _check(knob: str, value: str, choices: list[Choice]) -> None:
    allowed = [choice.value for choice in choices if not choice.reason]
    if value not in allowed:
        why = next((choice.reason for choice in choices if choice.value == value), "")
        rule = f"is left out here: {why}" if why else "is unknown"
        raise FieldError(knob, value, rule, alternatives=allowed)


def _unsupported(job: Job, algorithm: Algorithm, collective: Collective) -> str:
    """Why `algorithm` can't be forced on `collective`, which also runs among all ranks."""
    for fabric in (*job.groups(collective), job.world):
        verdict = supported(
            job.version, algorithm, collective, fabric, reduction_is_sum=job.reduction_is_sum
        )
        if not verdict.possible:
            return verdict.reason
    return ""


def _algorithm_problem(job: Job, algorithm: Algorithm) -> str:
    if job.world.ranks == 1:
        return _ALONE
    heavy = heavy_collectives(job.strategy)
    plan = planned(job, algorithm.value)
    if not plan:
        lacking = [c.words for c in heavy if c not in COLLECTIVES[algorithm]]
        nothing = f"NCCL has no {algorithm} for {' and '.join(lacking)}"
        others = [_unsupported(job, algorithm, c) for c in heavy if c in COLLECTIVES[algorithm]]
        return "; ".join(dict.fromkeys([*([nothing] if lacking else []), *others]))
    narrowed = [c for c in plan if _narrows(job, algorithm, c)]
    if not narrowed:
        names = " and ".join(collective.words for collective in plan)
        return f"{algorithm} is the only algorithm for {names} here, so it is the default"
    return _plain_form_problem(job, algorithm, narrowed)


def _narrows(job: Job, algorithm: Algorithm, collective: Collective) -> bool:
    return any(
        available(job.version, collective, group, reduction_is_sum=job.reduction_is_sum)
        != {algorithm}
        for group in job.groups(collective)
    )


def _plain_form_problem(job: Job, algorithm: Algorithm, narrowed: list[Collective]) -> str:
    """Why one list for all collectives, as before 2.24, doesn't say what is meant.

    Ring can always be forced: every collective has it. See `parser` and `effects` for the sources.
    """
    version = job.version
    if version >= PER_FUNCTION_FROM:
        return ""
    if NcclVersion(2, 7) <= version < NcclVersion(2, 19):
        others = [c.words for c in narrowed if c is not Collective.ALL_REDUCE]
        if others and (version < NcclVersion(2, 17) or algorithm is not Algorithm.RING):
            # It leaves ring on beside what is asked for, or doesn't look (before 2.17).
            return (
                f"NCCL {version} would silently ignore NCCL_ALGO for {' and '.join(others)}, "
                f"which {PER_FUNCTION_FROM.major}.{PER_FUNCTION_FROM.minor} and later don't"
            )
    elif algorithm is Algorithm.RING:
        return ""
    elif version < NcclVersion(2, 7):
        return f"NCCL {version} would stop at the first collective that has no {algorithm}"
    elif version < NcclVersion(2, 22):
        lacking = [c for c in collectives_of(job.strategy) if c not in COLLECTIVES[algorithm]]
        return (
            f"NCCL {version} would run what has no {algorithm}, such as {lacking[0].words}, on a "
            "ring with any protocol, ll128 unchecked, which may corrupt data; from NCCL 2.22 on "
            "it doesn't"
        )
    return _side_effect(job, algorithm)


def _side_effect(job: Job, algorithm: Algorithm) -> str:
    """Whether one list for all takes a choice away from a heavy collective it isn't meant for."""
    if job.version < NcclVersion(2, 17):
        return ""
    plan = planned(job, algorithm.value)
    for collective in heavy_collectives(job.strategy):
        if collective not in plan and _narrows(job, Algorithm.RING, collective):
            return (
                f"NCCL {job.version} has one list for all collectives: this one would force "
                f"{collective.words} to use a ring"
            )
    return ""


def _caution(algorithm: Algorithm) -> str:
    if algorithm in (Algorithm.RING, Algorithm.TREE):
        return ""
    return f"a reduction that {algorithm} doesn't have, such as an average or a maximum, will fail"


def _protocol_problem(job: Job, protocol: Protocol, algorithm: str) -> str:
    if job.world.ranks == 1:
        return _ALONE
    fabrics = [job.world, *(g for c in heavy_collectives(job.strategy) for g in job.groups(c))]
    for fabric in fabrics:
        verdict = safe(job.version, protocol, fabric)
        if not verdict.possible:
            return verdict.reason
    if job.world.why_simple:
        return "simple is what the EFA plugin sets by itself, as far as is known"
    plan = planned(job, algorithm)
    lacking = [a for a in plan.values() if protocol not in protocols_of(a)]
    if lacking:
        return f"{lacking[0]} has the simple protocol only"
    simple_only = [c for c, a in plan.items() if len(protocols_of(a)) == 1]
    if len(simple_only) == len(heavy_collectives(job.strategy)):
        return f"{algorithm} has the simple protocol only, so it is the default"
    return ""

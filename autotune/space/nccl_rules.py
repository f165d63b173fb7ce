"""The rules of knobs that NCCL reads: candidates and facts in the terms of `space.nccl`."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from autotune.errors import FieldError
from autotune.model import DEFAULT, KnobValue, ShardingStrategy
from autotune.space.facts import Facts
from autotune.space.nccl import (
    Algorithm,
    Collective,
    Fabric,
    Job,
    NcclVersion,
    Network,
    algorithm_choices,
    algorithm_variables,
    available,
    channel_limit,
    collectives_of,
    heavy_collectives,
    parse,
    protocol_choices,
    protocol_variables,
    usable,
)
from autotune.space.plugin import NVLS_WORKS_FROM, plugin_version

Values = Mapping[str, KnobValue]

_MAX_SOCKETS = 64
"""Threads times sockets. Source: NCCL user guide, NCCL_SOCKET_NTHREADS."""


def version(facts: Facts) -> NcclVersion:
    """Of the NCCL here. Raises FieldError when it isn't known."""
    if not facts.nccl:
        hint = "describe the machine with --assume nccl=2.27.5, or give the knob a condition on it"
        raise FieldError("nccl", facts.nccl, "has to be known for a rule of this space", hint=hint)
    return _parsed(facts.nccl)


_parsed = lru_cache(maxsize=64)(NcclVersion.parse)


def fabric(facts: Facts) -> Fabric:
    """All ranks of the job."""
    return Fabric(
        compute_capability=facts.compute_capability,
        nodes=facts.nodes,
        ranks_per_node=facts.ranks_per_node,
        network=facts.network,
        nvlink=facts.nvlink,
        nvswitch=facts.nvswitch,
        why_simple=facts.why_simple,
        nic_near_gpu=facts.nic_near_gpu,
        nvls_off=_nvls_off(facts),
    )


def _nvls_off(facts: Facts) -> str:
    if facts.in_force("NCCL_NVLS_ENABLE") != "0":
        return ""
    if "NCCL_NVLS_ENABLE" in facts.environment:
        return "NCCL_NVLS_ENABLE=0 in the environment switches NVLS off"
    return f"the EFA plugin switches NVLS off before NCCL {NVLS_WORKS_FROM}, this is {facts.nccl}"


def job(values: Values, facts: Facts) -> Job:
    """What NCCL is asked to do by a candidate with these values so far."""
    strategy = ShardingStrategy(str(values.get("strategy", ShardingStrategy.DDP)))
    reshard, shard = values.get("reshard_after_forward"), values.get("shard_size")
    is_size = isinstance(reshard, int) and not isinstance(reshard, bool)
    return Job(
        version=version(facts),
        strategy=strategy,
        world=fabric(facts),
        shard_size=shard if isinstance(shard, int) else None,
        reshard_size=int(reshard) if is_size and reshard is not None else None,
        sums=values.get("force_sum_reduction") is True or None,
    )


def algorithm_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    """Why an algorithm can't be asked for."""
    if value == DEFAULT:
        return ""
    here = job(values, facts)
    reason = _tuner_problem(facts) or _algorithm_reasons(here).get(str(value), "is unknown")
    if reason or "NCCL_PROTO" not in facts.environment:
        return reason
    return starved(here, {**facts.environment, **algorithm_variables(here, str(value))})


def protocol_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    """Why a protocol can't be asked for beside the algorithm chosen before it."""
    if value == DEFAULT:
        return ""
    here = job(values, facts)
    algorithm = str(values.get("nccl_algorithm", DEFAULT))
    reasons = _protocol_reasons(here, algorithm)
    reason = _tuner_problem(facts) or reasons.get(str(value), "is unknown")
    if reason or "NCCL_ALGO" not in facts.environment:
        return reason
    return starved(here, {**facts.environment, **protocol_variables(here, str(value), algorithm)})


@lru_cache(maxsize=4096)
def _algorithm_reasons(here: Job) -> Mapping[str, str]:
    return {choice.value: choice.reason for choice in algorithm_choices(here)}


@lru_cache(maxsize=4096)
def _protocol_reasons(here: Job, algorithm: str) -> Mapping[str, str]:
    return {choice.value: choice.reason for choice in protocol_choices(here, algorithm)}


def _tuner_problem(facts: Facts) -> str:
    """Source: aws-ofi-nccl, issue 982."""
    is_affected = NcclVersion(2, 19) <= version(facts) < NcclVersion(2, 22)
    if is_affected and plugin_version(facts.plugin) == (1, 16, 2):
        return "aws-ofi-nccl 1.16.2 fails with NCCL 2.19 to 2.21 when it is set"
    return ""


def starved(here: Job, environment: Mapping[str, str]) -> str:
    """Which collective `environment` leaves without an algorithm, as a clause; empty if none."""
    parsed = parse(here.version, environment)
    if parsed.error:
        return f"NCCL {here.version} would refuse it: {parsed.error}"
    for collective in collectives_of(here.strategy):
        heavy = collective in heavy_collectives(here.strategy)
        for group in (here.world, *(here.groups(collective) if heavy else ())):
            is_sum = here.reduction_is_sum if heavy else False
            if not usable(here.version, parsed, collective, group, reduction_is_sum=is_sum):
                return f"would leave {collective.words} without an algorithm"
    return ""


def strategy_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    """Whether what the user's environment forces on NCCL leaves a strategy without a collective."""
    del values
    # The default stays: if it can't run either, its trials say so.
    is_forced = "NCCL_ALGO" in facts.environment or "NCCL_PROTO" in facts.environment
    if value == ShardingStrategy.DDP or not facts.nccl or not is_forced:
        return ""
    # Hybrid's groups have no less to choose from than all ranks.
    reason = starved(job({"strategy": ShardingStrategy.FSDP_FULL}, facts), facts.environment)
    return f"can't run: NCCL_ALGO or NCCL_PROTO in the environment {reason}" if reason else ""


def ofi_protocol_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    """The plugin forces simple where it has to, but not against a NCCL_PROTO that is set."""
    del values
    if value == DEFAULT or "NCCL_PROTO" not in facts.environment:
        return ""
    return "may deliver out of order, and NCCL_PROTO in the environment decides on the protocol"


def sum_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    """Summing costs a kernel more; all it brings are algorithms that can't average."""
    if value is not True:
        return ""
    averaging = job(values, facts)
    for collective in heavy_collectives(averaging.strategy):
        for group in averaging.groups(collective):
            both = (
                available(averaging.version, collective, group, reduction_is_sum=is_sum)
                for is_sum in (True, False)
            )
            if len(set(both)) > 1:
                return ""
    return "makes no other algorithm possible here: it is for NVLS and PAT, which have no averages"


def channels_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    """Why this version can't have so many channels."""
    del values
    limit = channel_limit(version(facts))
    if value == DEFAULT or (isinstance(value, int) and 1 <= value <= limit):
        return ""
    return f"is outside 1 to {limit}, the channels of NCCL {facts.nccl}"


def sockets_problem(value: KnobValue, values: Values, facts: Facts) -> str:
    """Why so many sockets can't be had with the threads chosen before."""
    del facts
    threads = values.get("nccl_socket_nthreads")
    if not isinstance(threads, int) or not isinstance(value, int):
        return ""
    if threads * value <= _MAX_SOCKETS:
        return ""
    return f"times {threads} threads is more than the {_MAX_SOCKETS} sockets that NCCL opens"


def reached(token: str, values: Values, facts: Facts) -> str:
    """Why a knob that touches `token` does nothing; empty if it does, or isn't known to."""
    if token in _P2P:
        return "" if facts.ranks_per_node > 1 else "is for several ranks on a node"
    if token in (*set(Collective), "send", "recv"):
        strategy = ShardingStrategy(str(values.get("strategy", ShardingStrategy.DDP)))
        if token in heavy_collectives(strategy):
            return ""
        return f"is for {token.replace('_', '-')}, of which steps of strategy {strategy} have none"
    if token in set(Algorithm):
        return _absent(Algorithm(token), values, facts)
    return ""


def asked_for(token: str) -> tuple[str, ...]:
    """The knobs that decide on `reached`."""
    if token in set(Algorithm):
        return JOB
    return ("strategy",) if token in (*set(Collective), "send", "recv") else ()


JOB = ("strategy", "shard_size", "reshard_after_forward", "force_sum_reduction")
"""The knobs that `job` looks at."""
_P2P = ("p2p", "shm")


def off_network(touches: Sequence[str], facts: Facts) -> str:
    """Why a knob that touches nothing but networks does nothing; empty if it does."""
    networks = [Network(token) for token in touches if token in set(Network)]
    if not networks or len(networks) < len(touches) or facts.network in networks:
        return ""
    if facts.between_nodes in networks:
        return f"is for {_NAMES[facts.between_nodes]} between nodes, and there is one node"
    names = " or ".join(_NAMES[network] for network in networks)
    return f"is for {names}, and nodes like this reach each other by {_NAMES[facts.between_nodes]}"


_NAMES = {
    Network.NONE: "no network",
    Network.SOCKET: "TCP",
    Network.IB: "InfiniBand",
    Network.EFA: "EFA",
}


def _absent(algorithm: Algorithm, values: Values, facts: Facts) -> str:
    here = job(values, facts)
    for collective in heavy_collectives(here.strategy):
        for group in here.groups(collective):
            found = available(
                here.version, collective, group, reduction_is_sum=here.reduction_is_sum
            )
            if algorithm in found:
                return ""
    return f"is for {algorithm}, which can't be used: {_algorithm_reasons(here)[algorithm]}"

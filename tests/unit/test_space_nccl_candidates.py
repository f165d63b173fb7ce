"""What a study may try: known machines, and properties over all combinations."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import FieldError
from autotune.model import DEFAULT, ShardingStrategy
from autotune.space.nccl import (
    Algorithm,
    Collective,
    Fabric,
    Job,
    NcclVersion,
    Network,
    Protocol,
    algorithm_choices,
    algorithm_variables,
    collectives_of,
    heavy_collectives,
    heavy_groups,
    parse,
    planned,
    protocol_choices,
    protocol_variables,
    reads,
    safe,
    supported,
    usable,
)

DDP, FULL, GRAD_OP, HYBRID = ShardingStrategy
AR, AG, RS = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER


def node(capability: int, ranks: int = 8, **more: bool) -> Fabric:
    return Fabric(compute_capability=capability, nodes=1, ranks_per_node=ranks, **more)


P3 = node(70, 4, nvlink=True)
P4D = node(80, nvswitch=True)
P5 = node(90, nvswitch=True)
G5 = node(86)
P4D_2 = Fabric(
    compute_capability=80, nodes=2, ranks_per_node=8, nvswitch=True, network=Network.EFA,
    why_simple="the EFA plugin forces simple", nic_near_gpu=True,
)  # fmt: skip
P5_2 = Fabric(
    compute_capability=90, nodes=2, ranks_per_node=8, nvswitch=True, network=Network.EFA,
    nic_near_gpu=True,
)  # fmt: skip
SHARP = Fabric(
    compute_capability=90, nodes=4, ranks_per_node=8, nvswitch=True, network=Network.IB,
    nic_near_gpu=True, collnet=True,
)  # fmt: skip
SINGLES = Fabric(compute_capability=89, nodes=4, ranks_per_node=1, network=Network.SOCKET)


def job(nccl: str, strategy: ShardingStrategy, world: Fabric, **more: Any) -> Job:
    return Job(version=NcclVersion.parse(nccl), strategy=strategy, world=world, **more)


@pytest.mark.parametrize(
    ("nccl", "strategy", "world", "more", "expected"),
    [
        ("2.27.5", DDP, P4D, {}, "tree ring"),
        ("2.27.5", DDP, P4D_2, {}, "tree ring"),
        ("2.27.5", FULL, P4D, {}, ""),
        ("2.27.5", FULL, P4D_2, {}, ""),
        ("2.27.5", GRAD_OP, P4D, {}, ""),
        ("2.27.5", HYBRID, P4D_2, {"shard_size": 8}, "tree ring"),
        ("2.27.5", DDP, P5, {}, "tree ring nvls"),
        ("2.27.5", DDP, P5_2, {}, "tree ring nvls_tree"),
        ("2.27.5", FULL, P5, {}, "ring nvls"),
        ("2.27.5", FULL, P5, {"sums": True}, "ring nvls"),
        ("2.27.5", FULL, P5, {"reshard_size": 2}, "ring"),
        ("2.27.5", FULL, P5_2, {}, ""),
        ("2.27.5", DDP, SHARP, {}, "tree ring collnet_direct collnet_chain nvls nvls_tree"),
        ("2.27.5", DDP, G5, {}, "tree ring"),
        ("2.27.5", FULL, SINGLES, {}, "ring pat"),
        ("2.27.5", DDP, node(90, 2, nvswitch=True), {}, "tree ring"),
        ("2.27.5", DDP, node(90, 1), {}, ""),
        ("2.31.2", DDP, P4D, {}, "tree ring"),
        ("2.18.3", DDP, P4D, {}, "tree ring"),
        ("2.18.3", DDP, P5, {}, "tree ring nvls"),
        ("2.18.3", FULL, P5, {}, "ring"),
        ("2.10.3", DDP, P4D, {}, "tree ring"),
        ("2.10.3", HYBRID, P4D_2, {"shard_size": 8}, "tree ring"),
        ("2.21.5", DDP, P4D, {}, "ring"),
        ("2.23.4", DDP, P4D, {}, "tree ring"),
        ("2.23.4", FULL, P5, {}, "ring nvls"),
        ("2.23.4", HYBRID, SINGLES, {"shard_size": 2}, "ring"),
        ("2.6.4", DDP, P3, {}, "ring"),
    ],
)
def test_algorithms_of_known_machines(
    nccl: str, strategy: ShardingStrategy, world: Fabric, more: dict[str, int], expected: str
) -> None:
    choices = algorithm_choices(job(nccl, strategy, world, **more))
    assert choices[0].value == DEFAULT
    assert not choices[0].reason
    assert [c.value for c in choices[1:] if not c.reason] == expected.split()
    assert [c.value for c in choices[1:]] == [a.value for a in Algorithm]


@pytest.mark.parametrize(
    ("nccl", "strategy", "world", "value", "reason"),
    [
        ("2.27.5", FULL, P4D, "tree", "NCCL has no tree for all-gather and reduce-scatter"),
        ("2.27.5", FULL, P4D, "ring", "ring is the only algorithm for all-gather and "
         "reduce-scatter here, so it is the default"),
        ("2.27.5", DDP, P4D, "nvls", "Hopper or later, and the GPUs' compute capability is 8.0"),
        ("2.27.5", DDP, P5, "nvls_tree", "nvls_tree is for several nodes, and there is one"),
        ("2.27.5", DDP, P5_2, "nvls", "nvls spans nodes only with CollNet"),
        ("2.27.5", DDP, P5_2, "collnet_direct", "EFA doesn't reduce in the network"),
        ("2.16.5", DDP, P5, "nvls", "nvls came with NCCL 2.17, this is 2.16.5"),
        ("2.22.3", FULL, SINGLES, "pat", "pat came with NCCL 2.23"),
        ("2.27.5", FULL, P5, "pat", "several nodes with one rank on each"),
        ("2.18.3", FULL, P5, "nvls", "NCCL 2.18.3 would silently ignore NCCL_ALGO for all-gather"),
        ("2.21.5", DDP, P4D, "tree", "would run what has no tree, such as broadcast, on a "
         "ring with any protocol, ll128 unchecked"),
        ("2.6.4", DDP, P4D, "tree", "would stop at the first collective that has no tree"),
        ("2.27.5", DDP, node(80, 1), "ring", "there is one rank"),
    ],
)  # fmt: skip
def test_what_is_left_out_has_its_reason(
    nccl: str, strategy: ShardingStrategy, world: Fabric, value: str, reason: str
) -> None:
    a_job = job(nccl, strategy, world)
    choice = next(c for c in algorithm_choices(a_job) if c.value == value)
    assert reason in choice.reason
    with pytest.raises(FieldError, match="is left out here"):
        algorithm_variables(a_job, value)


def test_one_list_for_all_must_not_take_a_heavy_collectives_choice_away() -> None:
    hybrid = {"shard_size": 8}
    old, new = job("2.23.4", HYBRID, P5_2, **hybrid), job("2.27.5", HYBRID, P5_2, **hybrid)
    reasons = {c.value: c.reason for c in algorithm_choices(old)}
    assert "would force all-gather to use a ring" in reasons["tree"]
    assert not {c.value: c.reason for c in algorithm_choices(new)}["tree"]


def test_an_average_keeps_nvls_from_reductions_only() -> None:
    averages, sums = job("2.27.5", FULL, P5), job("2.27.5", FULL, P5, sums=True)
    assert planned(averages, "nvls") == {AG: Algorithm.NVLS}
    assert planned(sums, "nvls") == {AG: Algorithm.NVLS, RS: Algorithm.NVLS}
    assert "nvls can only sum" in supported(
        averages.version, Algorithm.NVLS, RS, P5, reduction_is_sum=False
    ).reason  # fmt: skip
    assert planned(job("2.27.5", FULL, SINGLES), "pat") == {AG: Algorithm.PAT}


def test_only_algorithms_with_limited_reductions_bring_a_caution() -> None:
    cautions = {c.value: c.caution for c in algorithm_choices(job("2.27.5", DDP, P5))}
    assert "will fail" in cautions["nvls"]
    assert not any(cautions[value] for value in ("default", "ring", "tree", "pat"))


@pytest.mark.parametrize(
    ("nccl", "world", "algorithm", "expected"),
    [
        ("2.27.5", P4D, DEFAULT, "ll ll128 simple"),
        ("2.27.5", P4D, "tree", "ll ll128 simple"),
        ("2.27.5", P4D_2, DEFAULT, ""),
        ("2.27.5", P5_2, DEFAULT, "ll ll128 simple"),
        ("2.27.5", P5, "nvls", ""),
        ("2.27.5", G5, DEFAULT, "ll simple"),
        ("2.27.5", P3, DEFAULT, "ll ll128 simple"),
        ("2.27.5", SINGLES, DEFAULT, "ll simple"),
        ("2.27.5", node(90, 1), DEFAULT, ""),
        ("2.27.5", node(60, nvlink=True), DEFAULT, "ll simple"),
        ("2.27.5", node(86, nvlink=True), DEFAULT, "ll ll128 simple"),
        ("2.18.3", node(86, nvlink=True), DEFAULT, "ll simple"),
    ],
)
def test_protocols_of_known_machines(
    nccl: str, world: Fabric, algorithm: str, expected: str
) -> None:
    choices = protocol_choices(job(nccl, DDP, world), algorithm)
    assert choices[0].value == DEFAULT
    assert [c.value for c in choices[1:] if not c.reason] == expected.split()


def test_ll128_across_nodes_needs_nics_near_the_gpus() -> None:
    far = Fabric(
        compute_capability=90, nodes=2, ranks_per_node=8, nvswitch=True, network=Network.IB,
        nic_near_gpu=False,
    )  # fmt: skip
    reason = safe(NcclVersion(2, 27), Protocol.LL128, far).reason
    assert "through PCIe switches only, which they do not" in reason
    reason = safe(NcclVersion(2, 27), Protocol.LL128, replace(far, nic_near_gpu=None)).reason
    assert "which isn't known (autotune knobs takes --assume nic_near_gpu=true)" in reason


def test_where_simple_is_forced_the_rest_could_corrupt_data() -> None:
    reasons = {c.value: c.reason for c in protocol_choices(job("2.27.5", DDP, P4D_2))}
    assert "could corrupt data" in reasons["ll"]
    assert "could corrupt data" in reasons["ll128"]
    assert reasons["simple"] == "simple is what the EFA plugin sets by itself, as far as is known"
    with pytest.raises(FieldError, match="could corrupt data"):
        protocol_variables(job("2.27.5", DDP, P4D_2), "ll")


def test_variables_of_a_choice() -> None:
    ddp, full = job("2.27.5", DDP, P5), job("2.18.3", FULL, P5)
    assert algorithm_variables(ddp, DEFAULT) == protocol_variables(ddp, DEFAULT) == {}
    assert algorithm_variables(ddp, "tree")["NCCL_ALGO"].endswith(";allreduce:tree")
    assert protocol_variables(ddp, "ll", "tree") == {"NCCL_PROTO": "allreduce:ll"}
    assert algorithm_variables(full, "ring") == {"NCCL_ALGO": "ring"}
    assert protocol_variables(full, "simple") == {"NCCL_PROTO": "simple"}
    with pytest.raises(FieldError, match="is unknown"):
        algorithm_variables(ddp, "treee")


@pytest.mark.parametrize("strategy", ShardingStrategy)
def test_heavy_collectives_are_among_those_issued(strategy: ShardingStrategy) -> None:
    issued = collectives_of(strategy)
    assert issued[: len(heavy_collectives(strategy))] == heavy_collectives(strategy)
    assert len(set(issued)) == len(issued)


def test_groups_of_hybrid_sharding() -> None:
    groups = heavy_groups(HYBRID, P5_2, shard_size=8)
    assert [(g.nodes, g.ranks_per_node, g.network) for g in groups[AG]] == [(1, 8, Network.NONE)]
    assert [(g.nodes, g.ranks_per_node, g.network) for g in groups[AR]] == [(2, 1, Network.EFA)]
    halves = heavy_groups(HYBRID, P5_2, shard_size=4)
    assert [(g.nodes, g.ranks_per_node) for g in halves[AR]] == [(2, 2)]
    wide = heavy_groups(HYBRID, SHARP, shard_size=16)
    assert [(g.nodes, g.ranks_per_node) for g in (*wide[AG], *wide[AR])] == [(2, 8), (2, 1)]
    with pytest.raises(FieldError, match="shard_size"):
        heavy_groups(HYBRID, P5_2)


@pytest.mark.parametrize(
    ("nodes", "ranks", "network"),
    [(0, 8, Network.NONE), (1, 0, Network.NONE), (2, 8, Network.NONE), (1, 8, Network.EFA)],
)
def test_a_fabric_that_cannot_be_is_refused(nodes: int, ranks: int, network: Network) -> None:
    with pytest.raises(FieldError):
        Fabric(compute_capability=80, nodes=nodes, ranks_per_node=ranks, network=network)


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    nodes = draw(st.sampled_from([1, 2, 4]))
    networks = [Network.NONE] if nodes == 1 else [Network.SOCKET, Network.IB, Network.EFA]
    network = draw(st.sampled_from(networks))
    flags = {name: draw(st.booleans()) for name in ("nvlink", "nvswitch", "nic_near_gpu")}
    return Fabric(
        compute_capability=draw(st.sampled_from([60, 70, 75, 80, 86, 89, 90, 100])),
        nodes=nodes,
        ranks_per_node=draw(st.sampled_from([1, 2, 4, 8, 16])),
        network=network,
        collnet=network is Network.IB and draw(st.booleans()),
        why_simple="it may" if network is Network.EFA and draw(st.booleans()) else "",
        **flags,
    )


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    world, strategy = draw(fabrics()), draw(st.sampled_from(ShardingStrategy))
    sizes = [size for size in (1, 2, 4, 8, 16, 32) if world.ranks % size == 0]
    nccl = NcclVersion(2, draw(st.integers(5, 33)), draw(st.integers(0, 9)))
    is_full = strategy is FULL
    return Job(
        version=nccl,
        strategy=strategy,
        world=world,
        shard_size=draw(st.sampled_from(sizes)) if strategy is HYBRID else None,
        reshard_size=draw(st.sampled_from([None, *sizes])) if is_full else None,
        sums=draw(st.sampled_from([None, True, False])),
    )


def fabrics_of(a_job: Job, collective: Collective) -> list[Fabric]:
    heavy = collective in heavy_collectives(a_job.strategy)
    return [a_job.world, *(a_job.groups(collective) if heavy else ())]


def environments(a_job: Job) -> list[tuple[str, str, dict[str, str]]]:
    found = []
    for algorithm in [c.value for c in algorithm_choices(a_job) if not c.reason]:
        for protocol in [c.value for c in protocol_choices(a_job, algorithm) if not c.reason]:
            variables = algorithm_variables(a_job, algorithm)
            variables |= protocol_variables(a_job, protocol, algorithm)
            found.append((algorithm, protocol, variables))
    return found


@settings(max_examples=300, deadline=None)
@given(jobs())
def test_every_environment_parses_and_leaves_no_collective_without_an_algorithm(
    a_job: Job,
) -> None:
    for _, _, environment in environments(a_job):
        assert all(reads(a_job.version, name) for name in environment)
        parsed = parse(a_job.version, environment)
        assert not parsed.error
        for collective in Collective:
            for fabric in fabrics_of(a_job, collective):
                assert usable(
                    a_job.version, parsed, collective, fabric,
                    reduction_is_sum=a_job.reduction_is_sum,
                )  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(jobs())
def test_every_choice_takes_effect(a_job: Job) -> None:
    """On what it is for it leaves that algorithm and protocol only, and less than the default."""
    for algorithm, protocol, environment in environments(a_job):
        parsed, default = parse(a_job.version, environment), parse(a_job.version, {})
        differs = not environment
        for collective in heavy_collectives(a_job.strategy):
            forced = planned(a_job, algorithm).get(collective)
            for group in a_job.groups(collective):
                is_sum = a_job.reduction_is_sum
                left = usable(a_job.version, parsed, collective, group, reduction_is_sum=is_sum)
                before = usable(a_job.version, default, collective, group, reduction_is_sum=is_sum)
                differs = differs or left != before
                assert left <= before
                assert forced is None or {a for a, _ in left} == {forced}
                assert protocol == DEFAULT or {p.value for _, p in left} == {protocol}
        assert differs or protocol != DEFAULT


@settings(max_examples=300, deadline=None)
@given(jobs())
def test_no_choice_allows_a_protocol_that_could_corrupt_data(a_job: Job) -> None:
    for _, _, environment in environments(a_job):
        injected = {"NCCL_PROTO": "simple"} if a_job.world.why_simple else {}
        assert not injected.keys() & environment.keys()
        parsed = parse(a_job.version, environment | injected)
        for collective in Collective:
            for fabric in fabrics_of(a_job, collective):
                for _, protocol in usable(a_job.version, parsed, collective, fabric):
                    assert safe(a_job.version, protocol, fabric).possible


@settings(max_examples=300, deadline=None)
@given(jobs())
def test_whatever_is_left_out_says_why(a_job: Job) -> None:
    choices = algorithm_choices(a_job)
    assert {c.value for c in choices} == {DEFAULT, *(a.value for a in Algorithm)}
    for choice in choices:
        if choice.reason:
            with pytest.raises(FieldError, match=re.escape(choice.reason)):
                algorithm_variables(a_job, choice.value)
        else:
            assert bool(algorithm_variables(a_job, choice.value)) == (choice.value != DEFAULT)

"""Whatever the machine, the version of NCCL and the strategy: no candidate breaks NCCL's rules."""

import random
from collections.abc import Iterator
from itertools import islice

import pytest

from autotune.model import Candidate, ShardingStrategy, Target
from autotune.space.catalogue import load_knobs
from autotune.space.facts import Facts
from autotune.space.instances import InstanceType, load_instances, machine_of
from autotune.space.knob import Searched
from autotune.space.nccl import (
    NcclVersion,
    Protocol,
    collectives_of,
    heavy_collectives,
    parse,
    problem,
    reads,
    safe,
    usable,
)
from autotune.space.nccl_rules import job
from autotune.space.space import Space

KNOBS = load_knobs()
VERSIONS = (
    "2.6.4", "2.10.3", "2.16.5", "2.17.1", "2.18.3", "2.18.5", "2.20.5", "2.21.5", "2.23.4",
    "2.24.3", "2.27.5", "2.30.7", "2.31.2",
)  # fmt: skip
INSTANCES = tuple(load_instances().values())
NODES = (1, 2, 4)
PLUGINS = ("", "1.7.2", "1.21.1")
"""Of aws-ofi-nccl: not known, one that forces simple everywhere, the newest known."""


def facts(
    instance: InstanceType, version: str, nodes: int, plugin: str = "1.21.1", **environment: str
) -> Facts:
    target = Target(
        instance=instance.name, nodes=nodes, ranks_per_node=instance.gpus, workload="bert-base",
        global_batch=64 * nodes * instance.gpus,
    )  # fmt: skip
    return Facts.of(
        machine_of(instance, {}),
        target,
        instance=instance,
        assumed={"nccl": version, "plugin": plugin},
        environment=environment,
    )


def spaces(version: str, **environment: str) -> Iterator[Space]:
    rng = random.Random(version)
    for instance in INSTANCES:
        for nodes in NODES:
            known = facts(instance, version, nodes, rng.choice(PLUGINS), **environment)
            for strategy in ShardingStrategy:
                small = known.ranks < {ShardingStrategy.DDP: 1, ShardingStrategy.HYBRID: 4}.get(
                    strategy, 2
                )
                if not small:
                    yield Space(
                        KNOBS, known, pinned={"strategy": strategy.value}, searched=Searched.FULL,
                        allow_lossy=True,
                    )  # fmt: skip


@pytest.mark.parametrize("samples", [1, pytest.param(8, marks=pytest.mark.long)])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_environment_is_one_that_nccl_takes(version: str, samples: int) -> None:
    rng = random.Random(version)
    seen = set()
    for space in spaces(version):
        seen.add((space.facts.ranks, space.pinned["strategy"]))
        for _ in range(samples):
            candidate = space.build(lambda question: rng.choice(question.values))
            check(space, candidate, NcclVersion.parse(version))
            assert space.settings(candidate).strategy == space.pinned["strategy"]
    assert seen == possible()


def possible() -> set[tuple[int, object]]:
    """Ranks and strategies of all instances and node counts: a strategy has a least number."""
    least = {"ddp": 1, "fsdp_full": 2, "fsdp_grad_op": 2, "hybrid": 4}
    ranks = {instance.gpus * nodes for instance in INSTANCES for nodes in NODES}
    return {(n, strategy) for n in ranks for strategy in least if n >= least[strategy]}


def check(space: Space, candidate: Candidate, version: NcclVersion) -> None:
    environment = space.environment(candidate)
    place = f"{space.facts} {candidate}"
    for name, value in environment.items():
        if name.startswith("NCCL_"):
            assert reads(version, name), place
            assert problem(version, name, value) == "", place
    parsed = parse(version, environment)
    assert parsed.error == "", place
    if space.facts.ranks == 1:
        return
    here = job(candidate, space.facts)
    for collective in collectives_of(here.strategy):
        is_heavy = collective in heavy_collectives(here.strategy)
        # Small ones, such as the maximum or the average of losses, run among all ranks.
        is_sum = is_heavy and here.reduction_is_sum
        for group in (*(here.groups(collective) if is_heavy else ()), here.world):
            pairs = usable(version, parsed, collective, group, reduction_is_sum=is_sum)
            assert pairs, f"{collective} has no algorithm: {place}"
    named = candidate.get("nccl_protocol", "default")
    if named != "default":
        assert safe(version, Protocol(str(named)), here.world).possible, place
        assert not space.facts.plugin_forces_simple, place


@pytest.mark.parametrize("version", ["2.18.5", "2.23.4", "2.27.5", "2.31.2"])
@pytest.mark.parametrize("forced", ["NCCL_PROTO=LL", "NCCL_PROTO=simple", "NCCL_ALGO=ring"])
def test_what_the_user_forces_is_not_made_worse(version: str, forced: str) -> None:
    """The user's variable holds its knob, and the other knob's values have to go with it."""
    name, _, value = forced.partition("=")
    rng = random.Random(forced)
    # Neighbours differ in little: every third one has all instances and all strategies.
    for space in islice(spaces(version, **{name: value}), rng.randrange(3), None, 3):
        candidate = space.build(lambda question: rng.choice(question.values))
        assert space.environment(candidate)[name] == value or space.facts.ranks == 1
        check(space, candidate, NcclVersion.parse(version))


def test_channels_are_ctas_or_channels_by_version() -> None:
    expected = {"2.10.3": "NCHANNELS", "2.16.5": "NCHANNELS", "2.17.1": "CTAS", "2.31.2": "CTAS"}
    instance = load_instances()["p4d.24xlarge"]
    for version, suffix in expected.items():
        space = Space(KNOBS, facts(instance, version, 1), pinned={"nccl_channels": 8})
        assert space.environment(space.baseline()) == {
            f"NCCL_MIN_{suffix}": "8", f"NCCL_MAX_{suffix}": "8"
        }  # fmt: skip


def test_more_channels_than_a_version_has_are_left_out() -> None:
    instance = load_instances()["p4d.24xlarge"]
    with pytest.raises(ValueError, match=r"outside 1 to 32, the channels of NCCL 2\.21\.5"):
        Space(KNOBS, facts(instance, "2.21.5", 1), pinned={"nccl_channels": 64})
    Space(KNOBS, facts(instance, "2.27.5", 1), pinned={"nccl_channels": 64})

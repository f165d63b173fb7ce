"""What every search strategy promises, for each of them."""

from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import pytest

from autotune.errors import FieldError
from autotune.model import Candidate, Target
from autotune.space.catalogue import load_knobs
from autotune.space.facts import Facts
from autotune.space.knob import Choice, Effect, Knob, Searched, Sets, TargetKind
from autotune.space.space import Space
from autotune.strategies import NAMES, SearchStrategy, build_strategy
from autotune.strategies.flat import FlatSpace
from autotune.strategies.gp import GpStrategy
from tests.fakes import MACHINE

TARGET = Target(
    instance=MACHINE.instance, nodes=1, ranks_per_node=2, workload="tiny", global_batch=32
)
FACTS = Facts.of(MACHINE, TARGET)
KNOBS = load_knobs()
Values = Callable[[Candidate], float | None]


def space(**arguments: Any) -> Space:
    return Space(KNOBS, FACTS, **arguments)


def huge() -> Space:
    """8^20 candidates."""
    knobs = [
        Knob(
            name=f"knob{i}",
            help="",
            sets=Sets(kind=TargetKind.ENVIRONMENT, name=f"KNOB{i}"),
            effect=Effect.SMALL,
            choices=tuple(Choice(value=value) for value in range(8)),
            ordered=i % 2 == 0,
        )
        for i in range(20)
    ]
    return Space(knobs, FACTS)


SPACES: dict[str, Space] = {
    "one candidate": space(pinned={"strategy": "fsdp_full"}, only=("strategy",)),
    "one knob": space(only=("bucket_cap_mb",)),
    "conditional": space(only=("strategy", "bucket_cap_mb", "activation_checkpointing")),
    "pinned": space(pinned={"strategy": "ddp"}, only=("bucket_cap_mb",)),
}
STOPS_ITSELF = {"staged"}
"""Strategies that may end before the space is exhausted, when nothing better is expected."""
every_strategy = pytest.mark.parametrize("name", NAMES)
every_space = pytest.mark.parametrize("where", SPACES)


def speed(candidate: Candidate) -> float | None:
    """Buckets of 50 MB are best, checkpointing of every block runs out of memory."""
    if candidate.get("activation_checkpointing") == "every_block":
        return None
    gain = 20.0 if candidate.get("bucket_cap_mb") == 50 else 0.0
    return 100.0 + gain - len(str(candidate.get("accumulation_steps")))


def infeasible(candidate: Candidate) -> None:
    del candidate


def search(strategy: SearchStrategy, values: Values, most: int = 1000) -> list[Candidate]:
    """What `strategy` proposes until it has nothing left, at most `most` candidates."""
    asked: list[Candidate] = []
    while len(asked) < most and (candidate := strategy.ask()) is not None:
        asked.append(candidate)
        strategy.tell(candidate, values(candidate))
    return asked


@cache
def searched(name: str, where: str) -> list[Candidate]:
    """The whole course of one search, with seed 1."""
    return search(build_strategy(name, SPACES[where], 1), speed)


@every_strategy
@every_space
def test_a_space_is_exhausted_without_a_repeat(name: str, where: str) -> None:
    asked = searched(name, where)
    assert len(asked) == len(set(asked))
    missed = set(SPACES[where].candidates()) - set(asked)
    assert set(asked) <= set(SPACES[where].candidates())
    assert not missed or name in STOPS_ITSELF


@every_strategy
def test_the_seed_decides(name: str) -> None:
    assert (
        search(build_strategy(name, SPACES["conditional"], 1), speed, 12)
        == searched(name, "conditional")[:12]
    )


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"grid", "staged"}))
def test_another_seed_searches_another_way(name: str) -> None:
    other = search(build_strategy(name, SPACES["conditional"], 2), speed, 8)
    assert other != searched(name, "conditional")[:8]


@every_strategy
@pytest.mark.parametrize("known", [0, 3, 11, 13])
def test_a_rebuilt_strategy_asks_as_if_it_had_never_stopped(name: str, known: int) -> None:
    """It is told what was told, without having been asked for it."""
    asked = searched(name, "conditional")
    strategy = build_strategy(name, SPACES["conditional"], 1)
    for candidate in asked[:known]:
        strategy.tell(candidate, speed(candidate))
    expected = asked[known] if known < len(asked) else None
    assert strategy.ask() == expected
    assert strategy.ask() == expected, "asking changes nothing"


@every_strategy
def test_the_baseline_is_not_proposed_once_it_was_told_twice(name: str) -> None:
    where = SPACES["one knob"]
    strategy = build_strategy(name, where, 1)
    strategy.tell(where.baseline(), 100.0)
    strategy.tell(where.baseline(), 101.0)
    asked = search(strategy, speed)
    assert {*asked} == {*where.candidates()} - {where.baseline()}


@every_strategy
def test_nothing_feasible_is_no_obstacle(name: str) -> None:
    where = SPACES["conditional"]
    asked = search(build_strategy(name, where, 1), infeasible, 13)
    assert len(set(asked)) == 13


@every_strategy
def test_pinned_knobs_stay(name: str) -> None:
    where = space(pinned={"strategy": "ddp", "bucket_cap_mb": 5}, searched=Searched.FULL)
    asked = search(build_strategy(name, where, 1), speed, 9)
    assert {(c["strategy"], c["bucket_cap_mb"]) for c in asked} == {("ddp", 5)}


@every_strategy
def test_a_huge_space_is_not_made_for_one_candidate(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = huge()
    strategy = build_strategy(name, where, 1)
    built = count()
    build = Space.build

    def counted(self: Space, *arguments: Any) -> Candidate:
        next(built)
        return build(self, *arguments)

    monkeypatch.setattr(Space, "build", counted)
    asked = search(strategy, lambda candidate: float(str(candidate["knob0"])), 9)
    assert len(set(asked)) == len(asked)
    assert len(asked) == 9 or name in STOPS_ITSELF
    assert next(built) < 10_000


def test_the_grid_keeps_the_order_of_the_space() -> None:
    for where, asked in ((w, searched("grid", w)) for w in SPACES):
        assert asked == list(SPACES[where].candidates())


@pytest.mark.parametrize(
    "where", [*SPACES.values(), space(searched=Searched.FULL), huge()], ids=lambda s: len(s.knobs)
)
def test_every_candidate_has_a_point_of_its_own_in_the_flat_space(where: Space) -> None:
    flat = FlatSpace(where)
    for candidate, _ in zip(where.candidates(), range(300), strict=False):
        assert flat.candidate(flat.point(candidate)) == candidate


def test_a_value_that_does_not_exist_becomes_its_nearest() -> None:
    where = space(only=("bucket_cap_mb",))
    axis = next(axis for axis in FlatSpace(where).axes if axis.knob.name == "bucket_cap_mb")
    assert axis.values == (1, 5, "default", 50, 100)
    without_fsdp = FlatSpace(space(pinned={"strategy": "ddp"}))
    assert "reshard_after_forward" not in {axis.knob.name for axis in without_fsdp.axes}


def test_the_process_models_knobs_that_only_some_candidates_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Optuna's own way with them is to draw at random, which it warns of."""
    where = SPACES["conditional"]
    strategy = GpStrategy(where, 1)
    candidates = list(where.candidates())
    for candidate in candidates[:3] + candidates[-8:]:
        strategy.tell(candidate, speed(candidate))
    drawn: list[str] = []
    monkeypatch.setattr(
        "optuna.samplers.RandomSampler.sample_independent",
        lambda *arguments: drawn.append(arguments[3]) or 0,
    )
    assert strategy.ask() is not None
    assert not drawn


def test_an_unknown_strategy_is_named_with_what_there_is() -> None:
    with pytest.raises(FieldError, match=r"--strategy: 'tep' .*did you mean 'tpe'.*random"):
        build_strategy("tep", SPACES["one knob"], 0)


@every_strategy
def test_what_is_under_way_is_not_proposed_again(name: str) -> None:
    strategy = build_strategy(name, SPACES["conditional"], 1)
    for candidate in searched(name, "conditional")[:4]:
        strategy.tell(candidate, speed(candidate))
    alone = strategy.ask()
    beside: dict[Candidate, None] = {}
    while len(beside) < 5 and (candidate := strategy.ask(beside.keys())) is not None:
        assert candidate not in beside
        assert strategy.ask(beside.keys()) == candidate, "asking changes nothing"
        beside[candidate] = None
    assert len(beside) == 5
    assert not set(beside) & set(searched(name, "conditional")[:4])
    assert next(iter(beside)) == strategy.ask() == alone


@every_strategy
def test_a_space_of_which_the_rest_is_under_way_is_exhausted(name: str) -> None:
    everything = list(SPACES["one knob"].candidates())
    assert build_strategy(name, SPACES["one knob"], 1).ask(everything) is None

"""The space: which candidates exist, and what they become."""

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from autotune.errors import FieldError
from autotune.model import Candidate, DeviceKind
from autotune.space.catalogue import load_knobs
from autotune.space.facts import Facts
from autotune.space.knob import Searched
from autotune.space.space import Question, Space, default_of
from autotune.space.view import view

KNOBS = load_knobs()


def make_space(ranks: int = 2, *, cuda: bool = False, batch: int = 32, **given: Any) -> Space:
    facts = Facts(
        device=DeviceKind.CUDA if cuda else DeviceKind.CPU,
        nodes=1,
        ranks_per_node=ranks,
        global_batch=batch,
        nccl="2.29.7" if cuda else "",
        compute_capability=80 if cuda else 0,
        nvswitch=cuda,
        blocks=2,
    )
    return Space(KNOBS, facts, **given)


def sample(space: Space, count: int = 200) -> Iterator[Candidate]:
    rng = random.Random(0)
    for _ in range(count):
        yield space.build(lambda question: rng.choice(question.values))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("cuda", [False, True])
def test_every_candidate_keeps_the_global_batch(ranks: int, cuda: bool) -> None:
    space = make_space(ranks, cuda=cuda, batch=96, only=["strategy", "accumulation_steps"])
    candidates = list(space.candidates())
    assert len(candidates) == len(set(candidates)) > 0
    for candidate in candidates:
        assert space.settings(candidate).global_batch(ranks) == 96


def test_candidates_start_with_the_baseline_and_can_be_traced_back() -> None:
    space = make_space(4)
    candidates = list(space.candidates())
    assert candidates[0] == space.baseline()
    other = make_space(4)  # it has built none of them, and remembers nothing
    for candidate in candidates:
        assert list(other.questions(candidate)) == list(space.questions(candidate))
        answers = {question.name: value for question, value in space.questions(candidate)}
        assert space.build(lambda q, a=answers: a[q.name]) == candidate  # type: ignore[misc]


def test_a_candidate_with_one_knob_changed_is_the_one_built_from_the_start() -> None:
    space = make_space(8, cuda=True, searched=Searched.FULL)
    for base in sample(space, 30):
        for changed, _ in space.questions(base):
            value = changed.values[-1]
            wanted = dict(base) | {changed.knob.name: value}
            varied = space.varied(base, changed.knob.name, value)
            asked = list(space.questions(varied))  # before the space hears of it in another way
            other = make_space(8, cuda=True, searched=Searched.FULL)
            assert varied == other.build(partial(nearest, wanted))
            assert asked == list(other.questions(varied))


def nearest(wanted: dict[str, Any], question: Question) -> Any:
    """The value wanted, or else the default."""
    value = wanted.get(question.knob.name)
    same_type = [v for v in question.values if v == value and type(v) is type(value)]
    return same_type[0] if same_type else default_of(question.knob, question.values)


def test_knobs_exist_only_where_they_do_something() -> None:
    for candidate in make_space(4).candidates():
        is_ddp = candidate["strategy"] == "ddp"
        assert ("bucket_cap_mb" in candidate) == is_ddp
        assert ("reshard_after_forward" in candidate) != is_ddp
        assert ("shard_size" in candidate) == (candidate["strategy"] == "hybrid")
        assert not any(name.startswith("nccl") for name in candidate)


def test_hybrid_needs_two_groups_of_two() -> None:
    def strategies(ranks: int) -> set[object]:
        return {candidate["strategy"] for candidate in make_space(ranks).candidates()}

    assert strategies(1) == {"ddp"}
    assert "hybrid" not in strategies(2)
    assert "hybrid" in strategies(4)


def test_integer_reshard_divides_the_shard_group() -> None:
    values = {
        candidate.get("reshard_after_forward")
        for candidate in make_space(8).candidates()
        if candidate["strategy"] == "fsdp_full"
    }
    assert values == {True, 2, 4}


def test_accumulation_divides_the_batch_of_a_rank() -> None:
    steps = {c["accumulation_steps"] for c in make_space(2, batch=24).candidates()}
    assert steps == {1, 2, 4}


def test_environment_has_only_what_is_not_default() -> None:
    space = make_space(8, cuda=True)
    assert space.environment(space.baseline()) == {}
    chosen = Candidate(
        {
            **space.baseline(),
            "nccl_channels": 8,
            "nccl_algorithm": "tree",
            "nccl_buffer_bytes": 8388608,
        }
    )
    assert space.environment(chosen) == {
        "NCCL_MIN_CTAS": "8",
        "NCCL_MAX_CTAS": "8",
        "NCCL_ALGO": "ring,tree,collnetdirect,collnetchain,nvls,nvlstree,pat;allreduce:tree",
        "NCCL_BUFFSIZE": "8388608",
    }


def test_tree_is_never_asked_of_collectives_that_lack_it() -> None:
    space = make_space(4, cuda=True)
    seen = {(candidate["strategy"], candidate["nccl_algorithm"]) for candidate in sample(space)}
    assert {strategy for strategy, algorithm in seen if algorithm == "tree"} == {"ddp", "hybrid"}
    for candidate in sample(space):
        forced = space.environment(candidate).get("NCCL_ALGO", "").split(";")[1:]
        assert all(entry == "allreduce:tree" for entry in forced if "tree" in entry)


def test_a_pin_holds_where_it_is_possible_and_leaves_the_rest_alone() -> None:
    space = make_space(2, cuda=True, pinned={"nccl_algorithm": "tree"})
    for candidate in sample(space):
        expected = "tree" if candidate["strategy"] == "ddp" else None
        assert candidate.get("nccl_algorithm") == expected
        space.environment(candidate)


def test_the_full_space_is_walked_without_being_counted() -> None:
    space = make_space(8, cuda=True, searched=Searched.FULL)
    some = [candidate for _, candidate in zip(range(20), space.candidates(), strict=False)]
    assert some[0] == space.baseline()
    assert len(set(some)) == 20
    for candidate in some:
        assert space.questions(candidate)


def test_lossy_values_have_to_be_allowed() -> None:
    only = ["communication_hook", "compute_dtype"]
    hooks = {c.get("communication_hook") for c in make_space(2, only=only).candidates()}
    assert hooks == {"none"}
    space = make_space(2, only=only, allow_lossy=True)
    pairs = {(c["communication_hook"], c["compute_dtype"]) for c in space.candidates()}
    assert len(pairs) == 4 * 2
    assert ("power_sgd", "bfloat16") in pairs
    with pytest.raises(FieldError, match="changes numerics: allow that with --allow-lossy"):
        make_space(2, pinned={"communication_hook": "bf16"})
    allowed = make_space(2, pinned={"communication_hook": "bf16"}, allow_lossy=True)
    assert allowed.settings(allowed.baseline()).communication_hook == "bf16"


def test_the_default_space_is_small() -> None:
    knobs = {q.knob.name for q, _ in _questions(make_space(8, cuda=True))}
    every = {q.knob.name for q, _ in _questions(make_space(8, cuda=True, searched=Searched.FULL))}
    assert len(knobs) == 8
    assert knobs < every
    assert len(every) >= 12


def _questions(space: Space) -> list[Any]:
    return space.questions(space.baseline())


def test_pinned_knobs_have_one_value_in_the_baseline_too() -> None:
    space = make_space(2, pinned={"strategy": "fsdp_full", "accumulation_steps": 2})
    assert space.baseline()["strategy"] == "fsdp_full"
    for candidate in space.candidates():
        assert candidate["strategy"] == "fsdp_full"
        assert candidate["accumulation_steps"] == 2


def test_only_leaves_the_other_knobs_at_their_defaults() -> None:
    space = make_space(2, only=["bucket_cap_mb"])
    assert len(list(space.candidates())) == 5
    for candidate in space.candidates():
        assert candidate["strategy"] == "ddp"


def test_any_number_in_range_can_be_pinned() -> None:
    space = make_space(2, pinned={"bucket_cap_mb": 77})
    assert space.settings(space.baseline()).bucket_cap_mb == 77


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"batch": 33}, ["--global-batch", "33", "multiple of the 2", "32, 34"]),
        ({"batch": 0}, ["--global-batch", "0", "multiple"]),
        ({"pinned": {"strategie": "ddp"}}, ["--set", "strategie", "did you mean 'strategy'"]),
        ({"only": ["shard_size"]}, ["--only", "shard_size", "no effect", "hybrid"]),
        ({"only": ["bucket"]}, ["--only", "bucket", "bucket_cap_mb"]),
        ({"pinned": {"strategy": "hybrid"}}, ["--set strategy", "hybrid", "ranks >=4"]),
        ({"pinned": {"accumulation_steps": 3}}, ["--set accumulation_steps", "3", "1, 2, 4"]),
        ({"pinned": {"nccl_channels": 8}}, ["--set nccl_channels", "no effect", "cuda"]),
        (
            {"pinned": {"strategy": "ddp", "reshard_after_forward": True}},
            ["--set reshard_after_forward", "no effect", "strategy fsdp_full"],
        ),
    ],
)
def test_what_leaves_no_candidate_is_refused(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(FieldError) as caught:
        make_space(**given)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("knob", "text", "value"),
    [
        ("strategy", "DDP", "ddp"),
        ("bucket_cap_mb", "50", 50),
        ("bucket_cap_mb", "default", "default"),
        ("reshard_after_forward", "true", True),
        ("reshard_after_forward", "2", 2),
    ],
)
def test_texts_become_values(knob: str, text: str, value: object) -> None:
    parsed = make_space().knob(knob).parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("knob", "text"),
    [("strategy", "zero3"), ("bucket_cap_mb", "0"), ("bucket_cap_mb", "1e3"), ("strategy", "-1")],
)
def test_texts_that_are_no_values_are_refused(knob: str, text: str) -> None:
    with pytest.raises(FieldError, match=knob):
        make_space().knob(knob).parse(text)


def test_why_a_knob_is_left_out_is_told() -> None:
    space = make_space(2)
    assert "cuda" in view(space, space.knob("nccl_channels")).reason
    strategy = view(space, space.knob("strategy"))
    assert "ranks >=4" in strategy.left_out["hybrid"]
    assert strategy.searched
    # Two ranks leave nothing open once the strategy is chosen.
    assert not view(space, space.knob("reshard_after_forward")).searched

"""Ranks agree on their settings before anything else, or all say why not."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch.distributed as dist

from autotune.trainers.failures import RankError
from autotune.trainers.rendezvous import Place, check_agreement

VARIABLES = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29400",
}


def place(rank: int, ranks: int) -> Place:
    return Place(
        rank=rank, ranks=ranks, local_rank=rank, local_ranks=ranks, address="localhost", port=1
    )


def report(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "spec": {"seed": 0, "settings": {"strategy": "ddp"}},
        "versions": {"torch": "2.13.0"},
        "seen": {"NCCL_ALGO": "Ring"},
        "asked": {"NCCL_ALGO": "Ring"},
    }
    return {**base, **changes}


def outcome(*reports: dict[str, Any]) -> set[str]:
    """What the ranks say, each in a thread of its own."""
    store = dist.HashStore()

    def check(rank: int) -> str:
        try:
            check_agreement(store, place(rank, len(reports)), reports[rank])
        except RankError as error:
            return f"{error.kind}: {error}"
        return ""

    with ThreadPoolExecutor(len(reports)) as pool:
        return set(pool.map(check, range(len(reports))))


def test_equal_ranks_agree() -> None:
    assert outcome(report(), report(), report()) == {""}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"spec": {"seed": 1, "settings": {"strategy": "ddp"}}},
            "rank 1 differs from rank 0: spec.seed is 1 there and 0 on rank 0",
        ),
        (
            {"versions": {"torch": "2.12.0"}},
            "rank 1 differs from rank 0: versions.torch is '2.12.0' there and '2.13.0' on rank 0",
        ),
        (
            {"seen": {"NCCL_ALGO": None}},
            "rank 1 doesn't see the trial's environment: NCCL_ALGO is None where the trial asks "
            "for 'Ring'",
        ),
    ],
)
def test_all_ranks_name_the_one_that_differs(changes: dict[str, Any], text: str) -> None:
    assert outcome(report(), report(**changes), report()) == {f"environment: {text}"}


def test_rank_0_serves_the_store_until_all_have_read_why() -> None:
    store = dist.HashStore()
    store.set("report/1", json.dumps(report(versions={})))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(check_agreement, store, place(0, 2), report())
        store.get("difference")
        with pytest.raises(TimeoutError):
            first.result(timeout=0.3)
        store.set("read/1", "")
        with pytest.raises(RankError):
            first.result(timeout=4)


def test_a_variable_that_nobody_sees_is_a_difference_too() -> None:
    (text,) = outcome(report(seen={}), report(seen={}))
    assert text.startswith("environment: rank 0 doesn't see")


def test_many_differences_are_cut() -> None:
    (text,) = outcome(report(), report(spec={f"field{i}": i for i in range(9)}))
    assert text.endswith("; and 6 more")


def test_the_place_comes_from_torchruns_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    found = Place.from_environment()
    assert (found.rank, found.ranks, found.address, found.port) == (1, 4, "10.0.0.1", 29400)


@pytest.mark.parametrize("name", VARIABLES)
def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for other, value in VARIABLES.items():
        monkeypatch.setenv(other, value)
    monkeypatch.delenv(name)
    with pytest.raises(RankError, match=f"{name} is not set"):
        Place.from_environment()


def test_a_place_that_is_no_number_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**VARIABLES, "RANK": "first"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RankError, match="RANK has to be a number, not 'first'"):
        Place.from_environment()

"""Leases: one holder a run, an end by the store's clock, and no writes by whoever lost it."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from autotune.errors import LeaseLostError, StorageError, UnreadableError
from autotune.model import StudyStatus
from autotune.storage import Store, open_store
from autotune.storage.lease import Owner
from tests.conformance.records import a_best, a_study, a_trial, same
from tests.conformance.test_store_migrations import execute

ONE = Owner(token="one", host="h1", pid=1, boot="b", pid_namespace="n", started=7)
OTHER = Owner(token="other", host="h2", pid=2)


@pytest.fixture
def held(store: Store) -> Store:
    """A store with a run whose lease is ONE's."""
    store.add_study(a_study())
    assert store.take_lease("r", ONE, 60.0).owner == ONE
    return store


def test_a_lease_is_refused_with_who_has_it_and_for_how_long(held: Store) -> None:
    refused = held.take_lease("r", OTHER, 60.0)
    assert refused.owner == ONE
    assert 0 < refused.left_s <= 60
    assert held.leases()["r"].owner == ONE
    assert held.take_lease("r", ONE, 60.0).owner == ONE, "its own holder may take it again"


def test_a_lease_that_has_ended_is_anybodys_and_until_then_still_its_holders(held: Store) -> None:
    assert held.renew_lease("r", "one", 0.05)
    time.sleep(0.1)
    assert held.leases()["r"].left_s < 0
    held.add_trial(a_trial(0), holder="one")
    assert held.renew_lease("r", "one", 0.05)
    time.sleep(0.1)
    assert held.take_lease("r", OTHER, 60.0).owner == OTHER
    assert not held.renew_lease("r", "one", 60.0)


def test_who_knows_that_a_holder_is_gone_needs_no_end(held: Store) -> None:
    assert held.take_lease("r", OTHER, 60.0, instead_of="another").owner == ONE
    assert held.take_lease("r", OTHER, 60.0, instead_of="one").owner == OTHER
    third = replace(OTHER, token="third")
    assert held.take_lease("r", third, 60.0, instead_of="one").owner == OTHER


def test_a_lease_is_let_go_of_by_its_holder_only(held: Store) -> None:
    held.release_lease("r", "other")
    assert held.leases()["r"].owner == ONE
    held.release_lease("r", "one")
    assert held.leases() == {}
    assert not held.renew_lease("r", "one", 60.0)
    assert held.take_lease("r", OTHER, 60.0).owner == OTHER


def test_who_lost_the_lease_writes_nothing(held: Store) -> None:
    held.add_trial(a_trial(0), holder="one")
    held.take_lease("r", OTHER, 60.0, instead_of="one")
    writes: list[Callable[[], object]] = [
        lambda: held.add_trial(a_trial(1), holder="one"),
        lambda: held.add_trial(a_trial(0), holder="one"),
        lambda: held.save_best(a_best(), holder="one"),
        lambda: held.update_study("r", status=StudyStatus.FINISHED, holder="one"),
    ]
    for write in writes:
        with pytest.raises(LeaseLostError, match="another process took over run 'r'"):
            write()
    held.release_lease("r", "other")
    with pytest.raises(LeaseLostError):
        writes[0]()
    assert same(held.trials("r"), [a_trial(0)])
    assert held.bests() == []
    study = held.study("r")
    assert study is not None
    assert study.status is a_study().status


def test_a_lease_is_of_a_known_run(store: Store) -> None:
    with pytest.raises(StorageError, match="no run 'nobody'"):
        store.take_lease("nobody", ONE, 60.0)


def test_of_many_that_want_a_lease_one_gets_it(held: Store) -> None:
    held.release_lease("r", "one")
    owners = [replace(OTHER, token=str(number)) for number in range(6)]
    barrier = Barrier(len(owners), timeout=30)

    def take(owner: Owner) -> Owner:
        barrier.wait()
        return held.take_lease("r", owner, 60.0).owner

    with ThreadPoolExecutor(len(owners)) as pool:
        got = list(pool.map(take, owners))
    assert len(set(got)) == 1


def test_a_lease_passes_by_a_clock_that_nobody_sets(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The day's time jumps by a year for the controller; the store's clock doesn't."""
    with open_store(url) as store:
        store.add_study(a_study())
        store.take_lease("r", ONE, 60.0)
        monkeypatch.setattr("time.time", lambda: 2e9)
        assert store.take_lease("r", OTHER, 60.0).owner == ONE


def test_a_lease_of_before_the_machine_started_has_ended(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(sqlite_url) as store:
        store.add_study(a_study())
        store.take_lease("r", ONE, 60.0)
        monkeypatch.setattr("autotune.storage.lease.boot_id", lambda: "the next boot")
        assert store.leases()["r"].left_s < 0
        assert store.take_lease("r", OTHER, 60.0).owner == OTHER


@pytest.mark.parametrize("change", ["owner = '[]'", "owner = '{'", "ends_s = 'x'", "token = x'00'"])
def test_a_broken_lease_is_named_and_leaves_the_others_readable(
    sqlite_url: str, change: str
) -> None:
    with open_store(sqlite_url) as store:
        for run_id in ("r", "other"):
            store.add_study(a_study(run_id))
            store.take_lease(run_id, ONE, 60.0)
        execute(sqlite_url, f"UPDATE leases SET {change} WHERE run_id = 'r'")
        broken: list[UnreadableError] = []
        assert set(store.leases(broken.append)) == {"other"}
        assert "leases[run_id='r']" in str(broken[0])
        with pytest.raises(StorageError, match="leases"):
            store.take_lease("r", OTHER, 60.0)

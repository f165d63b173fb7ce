"""Jobs that run studies elsewhere: kept before their study is known, by name, in order."""

from datetime import timedelta

import pytest

from autotune.compose import find_study
from autotune.errors import FieldError, StorageError, UnreadableError
from autotune.storage import Store, open_store
from tests.conformance.records import NOON, a_job, same
from tests.conformance.test_store_migrations import execute


def test_jobs_are_kept_without_their_study_the_oldest_first(store: Store) -> None:
    later = a_job("a", submitted_at=NOON + timedelta(seconds=1), max_cost_usd=None)
    store.add_job(later)
    store.add_job(a_job("b"))
    store.add_job(a_job("b"))
    assert same(store.jobs(), [a_job("b"), later])


def test_a_job_is_never_replaced(store: Store) -> None:
    store.add_job(a_job())
    with pytest.raises(StorageError, match="job 'autotune-r' is there already"):
        store.add_job(a_job(nodes=3))
    assert same(store.jobs(), [a_job()])


def test_a_run_of_which_nothing_has_come_yet_is_said_to_be_in_a_job(store: Store) -> None:
    store.add_job(a_job(run_id="20261130-1"))
    with pytest.raises(FieldError, match="'20261130-1' is submitted as a job") as raised:
        find_study(store, "20261130")
    assert "autotune resume 20261130-1" in raised.value.hint


def test_a_job_that_cannot_be_read_does_not_hide_others(url: str) -> None:
    broken: list[UnreadableError] = []
    with open_store(url) as store:
        store.add_job(a_job())
        store.add_job(a_job("other"))
    execute(url, "UPDATE jobs SET job = '[]' WHERE name = 'other'")
    with open_store(url) as store:
        assert same(store.jobs(broken.append), [a_job()])
    assert [error.key for error in broken] == ["r"]

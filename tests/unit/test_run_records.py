"""A run's records through outages, in order, once, and not against another controller's."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.errors import FieldError, LeaseLostError, OutageError, StorageError, UserError
from autotune.model import StudyStatus, Trial, encode
from autotune.storage import MemoryStore
from autotune.storage.aside import read_aside, write_aside
from autotune.storage.lease import Owner
from autotune.storage.run_records import ASIDE, RunRecords
from tests.conformance.records import a_best, a_study, a_trial, same

ME = Owner(token="me", host="h", pid=1)


class Failing(MemoryStore):
    """Fails while `down`, and if `late` after it has stored."""

    def __init__(self) -> None:
        super().__init__()
        self.down = self.late = False
        self.tried: list[int] = []

    def add_trial(self, trial: Trial, *, holder: str = "") -> None:
        self.tried.append(trial.number)
        if self.down:
            raise OutageError("away")
        super().add_trial(trial, holder=holder)
        if self.late:
            raise OutageError("the connection was lost")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.storage.run_records.PATIENCE_S", 0.0)
    monkeypatch.setattr("autotune.storage.run_records.RETRY_S", 0.0)


@pytest.fixture
def store() -> Failing:
    made = Failing()
    made.add_study(a_study())
    made.take_lease("r", ME, 60.0)
    return made


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def new(store: Failing, said: list[str], tmp_path: Path) -> Callable[[], RunRecords]:
    def make() -> RunRecords:
        return RunRecords(
            store, "r", "me",
            folder=tmp_path / "run", say=said.append, resume_command="autotune resume r",
        )  # fmt: skip

    return make


def test_what_was_put_aside_is_stored_in_its_order(
    store: Failing, new: Callable[[], RunRecords], said: list[str], tmp_path: Path
) -> None:
    records = new()
    records.add_trial(a_trial(0))
    store.down = True
    for number in (1, 2, 3):
        records.add_trial(a_trial(number))
    assert store.tried == [0, 1], "an outage is waited for once, not for each trial"
    assert same(read_aside(tmp_path / "run" / ASIDE, "r"), [a_trial(n) for n in (1, 2, 3)])
    with pytest.raises(OutageError):
        records.flush()
    store.down, store.tried = False, []
    records.add_trial(a_trial(4))
    assert store.tried == [], "not before those that came earlier"
    records.flush()
    assert store.tried == [1, 2, 3, 4]
    assert same(store.trials("r"), [a_trial(n) for n in range(5)])
    assert not (tmp_path / "run" / ASIDE).exists()
    assert said[-1] == "the store works again: the results of 4 trials are stored"


def test_what_arrived_although_the_store_failed_is_stored_once(
    store: Failing, new: Callable[[], RunRecords]
) -> None:
    records = new()
    store.late = True
    records.add_trial(a_trial(0))
    assert records.is_behind
    store.late = False
    records.flush()
    assert same(store.trials("r"), [a_trial(0)])


def test_the_next_controller_stores_what_the_last_one_put_aside(
    store: Failing, new: Callable[[], RunRecords], said: list[str], tmp_path: Path
) -> None:
    records = new()
    store.down = True
    records.add_trial(a_trial(0))
    records.add_trial(a_trial(1))
    store.down = False
    MemoryStore.add_trial(store, a_trial(0))  # as if it was killed between the two
    new().recover()
    assert same(store.trials("r"), [a_trial(0), a_trial(1)])
    assert "the results of 2 trials are stored from" in said[-1]
    assert list((tmp_path / "run").iterdir()) == []


def test_what_another_controller_ran_again_is_not_mixed_with_it(
    store: Failing, new: Callable[[], RunRecords], said: list[str], tmp_path: Path
) -> None:
    records = new()
    store.down = True
    for number in (0, 1, 2):
        records.add_trial(a_trial(number))
    store.down = False
    store.add_trial(a_trial(0))
    store.add_trial(a_trial(1, reason="another launch"))
    new().recover()
    assert same(store.trials("r"), [a_trial(0), a_trial(1, reason="another launch")])
    (kept,) = (tmp_path / "run").iterdir()
    assert "the results of 2 trials are not used: another process had trial 1" in said[-1]
    assert str(kept) in said[-1]
    assert len(read_aside(kept, "r")) == 3


def test_a_store_that_stays_away_ends_the_run_with_the_file_named(
    store: Failing, new: Callable[[], RunRecords], tmp_path: Path
) -> None:
    records = new()
    store.down = True
    records.add_trial(a_trial(0))
    with pytest.raises(OutageError) as caught:
        records.save_best(a_best())
    assert f"the result of 1 trial is kept in {tmp_path / 'run' / ASIDE}" in str(caught.value)
    assert caught.value.hint == "once it works again: autotune resume r"


def test_results_that_no_file_takes_are_kept_in_memory(
    store: Failing, new: Callable[[], RunRecords], said: list[str], tmp_path: Path
) -> None:
    (tmp_path / "run").write_text("in the way")
    records = new()
    store.down = True
    records.add_trial(a_trial(0))
    records.add_trial(a_trial(1))
    assert [line for line in said if "in memory" in line] == said[1:]
    store.down = False
    records.flush()
    assert same(store.trials("r"), [a_trial(0), a_trial(1)])


def test_an_error_that_no_waiting_mends_is_raised_at_once(
    store: Failing, new: Callable[[], RunRecords]
) -> None:
    records = new()
    records.add_trial(a_trial(0))
    with pytest.raises(StorageError, match="with other content"):
        records.add_trial(a_trial(0, reason="another"))
    store.take_lease("r", Owner(token="you", host="h", pid=2), 60.0, instead_of="me")
    with pytest.raises(LeaseLostError):
        records.add_trial(a_trial(1))
    with pytest.raises(LeaseLostError):
        records.update_study("r", status=StudyStatus.FINISHED)
    assert not records.is_behind


BAD = {
    "is not JSON": "{",
    "1: outcome: 'fine'": json.dumps({**encode(a_trial(0)), "outcome": "fine"}),
    "is not the run 'r'": json.dumps(encode(a_trial(0, run_id="other"))),
    "has to be a mapping": "[]",
    "is not JSON ": "[" * 100_000,
}


@pytest.mark.parametrize("words", BAD)
def test_a_file_that_something_else_wrote_is_refused_with_its_line(
    words: str, tmp_path: Path
) -> None:
    path = tmp_path / ASIDE
    path.write_text(BAD[words] + "\n")
    with pytest.raises(UserError) as caught:
        read_aside(path, "r")
    assert f"{path}:1" in str(caught.value)
    assert words.strip() in str(caught.value)


def test_the_file_is_private_and_as_it_was_when_it_cant_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run" / ASIDE
    write_aside(path, [a_trial(0)])
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_aside(path, [a_trial(0), a_trial(1)])
    assert same(read_aside(path, "r"), [a_trial(0)])
    assert list(path.parent.iterdir()) == [path]


def test_a_run_that_is_no_plain_name_has_no_folder() -> None:
    from autotune.storage.folder import run_folder

    for run_id in ("../x", "a/b", "", ".", "-x", "x" * 65, "a\0", "ünï"):
        with pytest.raises(FieldError, match="is not a run id"):
            run_folder(run_id)

"""What a store has is elsewhere too, in order, once, through outages; and comes back from there."""

import dataclasses
import json
import math
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from autotune.cli.mirroring import study_to_resume
from autotune.errors import (
    FieldError,
    LeaseLostError,
    OutageError,
    StorageError,
    UnreadableError,
    UserError,
)
from autotune.model import Conclusion, Script, StudyStatus, UserWorkload
from autotune.storage import MemoryStore, Store
from autotune.storage.changes import FOLDER, Change, Position, Status, read_changes
from autotune.storage.lease import Owner
from autotune.storage.mirror import PATIENCE_S, put_next, send_missing
from autotune.storage.mirrored import MirroredStore
from autotune.storage.objects import FolderObjects, Objects
from autotune.storage.replay import apply_changes, fold
from tests.conformance.records import a_best, a_study, a_target, a_trial, same

ME = Owner(token="me", host="h", pid=1)


class Flaky(FolderObjects):
    """A folder that fails while `down`; with `late`, once after it has written."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.down = Event()
        self.late = Event()

    def put_new(self, name: str, content: bytes) -> bool:
        if self.down.is_set():
            raise OutageError(f"{self.place}: away")
        made = super().put_new(name, content)
        if self.late.is_set():
            self.late.clear()
            raise OutageError(f"{self.place}: the connection was lost")
        return made

    def within(self, folder: str) -> "Flaky":
        self._folder = self._folder / folder
        return self


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.storage.mirror.RETRY_S", (0.01,))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def run(tmp_path: Path) -> FolderObjects:
    """Where the mirror of run r is."""
    return FolderObjects(tmp_path / "r")


Open = Callable[[], MirroredStore]


@pytest.fixture
def opened(tmp_path: Path, said: list[str]) -> Open:
    return lambda: MirroredStore(MemoryStore(), FolderObjects(tmp_path), said.append)


def written(store: Store, mirror: Objects | None = None) -> None:
    """A whole run, of which the mirror has seen the beginning."""
    store.add_study(a_study())
    store.take_lease("r", ME, 60.0)
    while mirror is not None and not mirror.names(FOLDER):
        Event().wait(0.01)
    for number in range(3):
        store.add_trial(a_trial(number), holder="me")
    store.save_best(a_best(run_id="r"), holder="me")
    store.update_study(
        "r", status=StudyStatus.FINISHED, conclusion=Conclusion.IMPROVED, reason="why", holder="me"
    )


def kinds(objects: Objects) -> list[str]:
    return [change.kind for change in read_changes(objects, "r")]


def same_run(one: Store, other: Store) -> bool:
    a, b = one.study("r"), other.study("r")
    return (
        a is not None
        and b is not None
        and (a.spec, a.status, a.conclusion, a.reason) == (b.spec, b.status, b.conclusion, b.reason)
        and same(list(one.trials("r")), list(other.trials("r")))
        and same(list(one.bests()), list(other.bests()))
    )


def test_every_change_is_mirrored_in_its_order(opened: Open, run: FolderObjects) -> None:
    store = opened()
    written(store, run)
    store.release_lease("r", "me")
    assert kinds(run) == ["study", "trial", "trial", "trial", "best", "status"]
    assert run.names(FOLDER)[0] == "00000001.json"


def test_what_a_mirror_holds_comes_back(opened: Open, run: FolderObjects) -> None:
    store, again = opened(), MemoryStore()
    written(store, run)
    store.close()
    assert apply_changes(again, read_changes(run, "r")) == 6
    assert same_run(store, again)
    assert apply_changes(again, read_changes(run, "r")) == 6, "the same once more is no error"
    assert same_run(store, again)


def test_a_follower_reads_on_where_it_was(opened: Open, run: FolderObjects) -> None:
    store, follower = opened(), MemoryStore()
    store.add_study(a_study())
    store.take_lease("r", ME, 60.0)
    store.add_trial(a_trial(0), holder="me")
    store.release_lease("r", "me")
    first = list(read_changes(run, "r"))
    apply_changes(follower, first)
    read = Position().after(first[0]).after(first[1])
    store.take_lease("r", ME, 60.0)
    store.add_trial(a_trial(1), holder="me")
    store.close()
    assert [change.number for change in read_changes(run, "r", read)] == [3]
    assert apply_changes(follower, read_changes(run, "r", read)) == 3
    assert len(follower.trials("r")) == 2


def test_another_machine_goes_on_with_a_run(opened: Open, run: FolderObjects) -> None:
    first, second = opened(), opened()
    first.add_study(a_study())
    first.take_lease("r", ME, 60.0)
    first.add_trial(a_trial(0), holder="me")
    first.close()
    assert second.restore("r")
    second.take_lease("r", ME, 60.0)
    second.add_trial(a_trial(1), holder="me")
    second.close()
    assert kinds(run) == ["study", "trial", "trial"]
    assert not second.restore("other")


OWN = UserWorkload(
    name="train.py", parameters=1, blocks=0, block="", global_batch=8, module="",
    script=Script(program="train.py", folder="/somewhere", arguments=("--lr", "3")),
)  # fmt: skip


@pytest.mark.parametrize("beginning", [False, True])
def test_code_that_only_a_mirror_names_is_not_started_unasked(
    opened: Open, run: FolderObjects, beginning: bool
) -> None:
    theirs, store = MemoryStore(), opened()
    theirs.add_study(a_study(spec=replace(a_study().spec, own_workload=OWN)))
    send_missing(theirs, run, "r")
    if beginning:
        store.add_study(a_study("r2"))  # which "r" would mean, if the mirror had none of that name
    for _ in range(2):
        with pytest.raises(UserError, match=r"names code to start: train\.py --lr 3") as raised:
            study_to_resume(store, "r", trusted=False)
        assert "--trust-script" in raised.value.hint
        assert store.study("r") is None, "else the next resume would start it"
    assert study_to_resume(store, "r", trusted=True).run_id == "r"


def test_an_answer_to_another_question_is_not_taken(run: FolderObjects) -> None:
    theirs, ours = MemoryStore(), MemoryStore()
    theirs.add_study(a_study())
    known = send_missing(theirs, run, "r")
    put_next(run, known, a_best(run_id="r", target=a_target(workload="bert-large")))
    with pytest.raises(StorageError, match="is for another target"):
        apply_changes(ours, read_changes(run, "r"))
    assert not ours.bests()


@pytest.mark.parametrize("change", [{"seconds": math.nan}, {"seconds": -1.0}, {"number": -5}])
def test_a_trial_that_cannot_be_is_named(run: FolderObjects, change: dict[str, float]) -> None:
    first = Change(number=1, record=a_trial())
    data = json.loads(first.to_bytes())
    data["record"] |= change
    run.put(first.name, json.dumps(data).encode())
    with pytest.raises(UnreadableError, match=f"{next(iter(change))}: .* has to be"):
        list(read_changes(run, "r"))


@pytest.mark.parametrize(
    ("numbers", "place", "rule"),
    [
        ([0, 2], "00000003", "2 has to be 1: a run's trials come once each"),
        ([1], "00000002", "1 has to be 0"),
        ([2**62], "00000002", f"{2**62} has to be 0"),
        ([1, 0], "00000002", "1 has to be 0"),
        ([0, 1, 0], "00000004", "0 has to be 2"),
        ([0, 0], "00000003", "0 has to be 1"),
    ],
)
def test_trials_that_dont_follow_each_other_are_named(
    run: FolderObjects, numbers: list[int], place: str, rule: str
) -> None:
    records = [a_study(), *(a_trial(number) for number in numbers)]
    for number, record in enumerate(records, 1):
        change = Change(number=number, record=record)
        run.put(change.name, change.to_bytes())
    with pytest.raises(UnreadableError, match=rf"{place}\.json: record\.number: {rule}"):
        list(read_changes(run, "r"))


def test_a_run_begins_with_its_study_and_has_one(run: FolderObjects) -> None:
    for number, record in enumerate([a_study(), a_study()], 1):
        change = Change(number=number, record=record)
        run.put(change.name, change.to_bytes())
    with pytest.raises(UnreadableError, match=r"00000002\.json: kind: 'study' has to be"):
        list(read_changes(run, "r"))
    run.put(change.name.replace("2", "1"), Change(number=1, record=a_trial()).to_bytes())
    with pytest.raises(UnreadableError, match=r"00000001\.json: kind: 'trial' has to be study"):
        list(read_changes(run, "r"))


def test_an_object_that_is_too_large_is_not_read(run: FolderObjects, tmp_path: Path) -> None:
    name, content = first_change()
    run.put(name, content)
    with (tmp_path / "r" / name).open("r+b") as file:
        file.truncate(2**40)  # sparse; more than memory holds
    with pytest.raises(UnreadableError, match=r"00000001\.json: has 1099511627776 bytes, and may"):
        list(read_changes(run, "r"))


def test_another_writer_is_told_of_at_the_end_too(
    opened: Open, run: FolderObjects, said: list[str]
) -> None:
    store = opened()
    written(store, run)
    while kinds(run)[-1:] != ["status"]:
        Event().wait(0.01)
    put_next(run, fold(read_changes(run, "r")), Status(run_id="r", status=StudyStatus.RUNNING))
    store.update_study("r", status=StudyStatus.INTERRUPTED, holder="me")
    store.close()
    assert "another process works on run 'r'" in said[-1]


def test_what_a_killed_controller_didnt_send_is_sent_later(
    opened: Open, run: FolderObjects
) -> None:
    store = MemoryStore()
    written(store)
    assert run.put_new(*first_change())
    last = send_missing(store, run, "r").last
    assert kinds(run) == ["study", "trial", "trial", "trial", "best", "status"]
    assert send_missing(store, run, "r").last == last, "nothing twice"
    again = MemoryStore()
    apply_changes(again, read_changes(run, "r"))
    assert same_run(store, again)


def first_change() -> tuple[str, bytes]:
    change = Change(number=1, record=a_study())
    return change.name, change.to_bytes()


def test_a_study_goes_on_while_the_mirror_is_away(tmp_path: Path, said: list[str]) -> None:
    objects = Flaky(tmp_path)
    store = MirroredStore(MemoryStore(), objects, said.append)
    store.add_study(a_study())
    objects.down.set()
    store.take_lease("r", ME, 60.0)
    for number in range(3):
        store.add_trial(a_trial(number), holder="me")
    while not said:
        Event().wait(0.01)
    objects.down.clear()
    store.close()
    assert [change.kind for change in read_changes(objects, "r")] == ["study", *["trial"] * 3]
    assert said[0].endswith("; changes wait until that works again")
    assert said[1:] == [f"{objects.place}: works again"]


def test_an_end_doesnt_wait_for_ever(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotune.storage.mirror.Mirror.close.__defaults__", (0.05,))
    objects = Flaky(tmp_path)
    objects.down.set()
    store = MirroredStore(MemoryStore(), objects, said.append)
    store.add_study(a_study())
    store.take_lease("r", ME, 60.0)
    store.close()
    assert "resuming the run sends it" in said[-1]


def test_ctrl_c_leaves_what_isnt_sent_and_ends_the_run_in_order(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotune.storage.mirror._QUIET_S", 0.01)
    objects, plain = Flaky(tmp_path), MemoryStore()

    def heard(text: str) -> None:
        said.append(text)
        if "Ctrl-C leaves it" in text:
            signal.raise_signal(signal.SIGINT)

    store = MirroredStore(plain, objects, heard)
    store.add_study(a_study())
    objects.down.set()
    store.take_lease("r", ME, 60.0)
    began = time.monotonic()
    store.release_lease("r", "me")
    assert time.monotonic() - began < PATIENCE_S / 2
    assert f"sending what isn't there yet, for {PATIENCE_S:.0f} s at most" in said[-2]
    assert "resuming the run sends it" in said[-1]
    assert not plain.leases(), "the run is anybody's"


def test_a_lost_answer_writes_nothing_twice(tmp_path: Path, said: list[str]) -> None:
    objects = Flaky(tmp_path)
    store = MirroredStore(MemoryStore(), objects, said.append)
    store.add_study(a_study())
    store.take_lease("r", ME, 60.0)
    while not objects.names(FOLDER):
        Event().wait(0.01)
    objects.late.set()
    for number in range(2):
        store.add_trial(a_trial(number), holder="me")
    store.close()
    assert not objects.late.is_set()
    store.add_trial(a_trial(2), holder="me")
    assert kinds(objects) == ["study", "trial", "trial"]
    assert "the connection was lost" in said[0]


def test_of_two_that_write_one_is_stopped(opened: Open, run: FolderObjects) -> None:
    store = opened()
    store.add_study(a_study())
    store.take_lease("r", ME, 60.0)
    while not run.names(FOLDER):
        Event().wait(0.01)
    other = Change(number=2, record=a_trial(0, reason="of another machine"))
    assert run.put_new(other.name, other.to_bytes())
    store.add_trial(a_trial(0), holder="me")
    with pytest.raises(LeaseLostError, match="another process works on run 'r'"):
        for_ten_seconds(lambda: store.add_trial(a_trial(0), holder="me"))
    assert run.get(other.name) == other.to_bytes()


def for_ten_seconds(action: Callable[[], None]) -> None:
    for _ in range(1000):
        Event().wait(0.01)
        action()


@pytest.mark.parametrize("given", ["/proc/nothing", "/dev/null/x"])
def test_a_place_that_cant_be_written_ends_the_command_before_anything_is_there(
    given: str, said: list[str]
) -> None:
    plain = MemoryStore()
    store = MirroredStore(plain, FolderObjects(Path(given)), said.append)
    with pytest.raises(FieldError, match=rf"--mirror: '{given}/r' can't be written: {given}"):
        store.add_study(a_study())
    assert plain.study("r") is None
    with pytest.raises(FieldError, match=r"--mirror: .* can't be written"):
        study_to_resume(store, "r", trusted=False)


def test_a_probe_leaves_nothing_in_a_folder(opened: Open, run: FolderObjects) -> None:
    opened().add_study(a_study())
    assert run.names("") == []


def test_a_new_run_never_goes_into_another_ones_mirror(opened: Open) -> None:
    store = opened()
    written(store)
    store.close()
    with pytest.raises(FieldError, match="holds a run already"):
        opened().add_study(a_study())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: data | {"format": 2}, "format: 2 has to be 1"),
        (lambda data: data | {"number": 7}, "number: 7 has to be 2"),
        (lambda data: data | {"kind": "lease"}, "kind: 'lease' is not known"),
        (lambda data: data | {"record": {}}, "is required but missing"),
        (lambda data: data | {"record": data["record"] | {"run_id": "q"}}, "is not the run 'r'"),
        (lambda data: [], "has to be a mapping"),
    ],
)
def test_a_broken_object_is_named(
    opened: Open, run: FolderObjects, spoil: Callable[[object], object], message: str
) -> None:
    store = opened()
    written(store, run)
    store.close()
    name = f"{FOLDER}/00000002.json"
    run.put(name, json.dumps(spoil(json.loads(run.get(name) or b""))).encode())
    with pytest.raises(UnreadableError, match=f"00000002.json: .*{message}"):
        list(read_changes(run, "r"))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_named(run: FolderObjects, content: bytes) -> None:
    run.put(f"{FOLDER}/00000001.json", content)
    with pytest.raises(UnreadableError, match=r"00000001.json: is not JSON"):
        list(read_changes(run, "r"))


def test_a_lost_object_is_named_and_what_isnt_ours_left_alone(
    opened: Open, run: FolderObjects, tmp_path: Path
) -> None:
    store = opened()
    written(store, run)
    store.close()
    run.put(f"{FOLDER}/notes.txt", b"mine")
    assert len(list(read_changes(run, "r"))) == 6
    (tmp_path / "r" / FOLDER / "00000003.json").unlink()
    with pytest.raises(UnreadableError, match=r"00000003.json: is missing, and later ones"):
        list(read_changes(run, "r"))


def test_a_store_that_has_another_run_of_this_name_is_left_as_it_is(run: FolderObjects) -> None:
    store = MemoryStore()
    spec = dataclasses.replace(a_study().spec, seed=99)
    store.add_study(a_study(spec=spec))
    with pytest.raises(StorageError, match="with other content"):
        apply_changes(store, [Change(number=1, record=a_study())])


def test_only_the_last_status_counts() -> None:
    store = MemoryStore()
    statuses = [StudyStatus.INTERRUPTED, StudyStatus.RUNNING, StudyStatus.FINISHED]
    changes = [Change(number=1, record=a_study())] + [
        Change(number=number, record=Status(run_id="r", status=status))
        for number, status in enumerate(statuses, 2)
    ]
    assert fold(changes).status == Status(run_id="r", status=StudyStatus.FINISHED)
    apply_changes(store, changes)
    study = store.study("r")
    assert study is not None
    assert study.status is StudyStatus.FINISHED

"""Which answer is written to which file."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.answers import keep_answer, shared_before
from autotune.cli.saving import default_output, save_file
from autotune.exporters import read
from autotune.model import BestConfiguration, Conclusion, Study, StudySpec
from autotune.storage import MemoryStore, Store
from tests.conformance.records import TARGET, a_best, a_study, a_trial

WIDE = a_study("wide", spec=StudySpec(target=TARGET))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def store() -> Iterator[Store]:
    """A store in which the study `wide` has found something."""
    with MemoryStore() as store:
        store.add_study(WIDE)
        store.add_trial(a_trial(0, "wide"))
        store.save_best(a_best(run_id="wide"))
        yield store


def ended(
    store: Store, output: str | None, conclusion: Conclusion
) -> tuple[Study, BestConfiguration]:
    """A study with a pin, and what it found."""
    spec = StudySpec(target=TARGET, pinned={"strategy": "ddp"}, output=output)
    study = a_study("narrow", spec=spec)
    store.add_study(study)
    evidence = replace(a_best().evidence, winner=None, ratio=None, pinned=spec.pinned)
    best = a_best(conclusion, "narrow", evidence=evidence)
    return study, keep_answer(store, best, ("run r2 (pid 7)",))


def test_the_default_file_holds_the_answer_that_is_kept(store: Store) -> None:
    study, best = ended(store, None, Conclusion.KEEP_DEFAULTS)
    saved = save_file(study, store, best)
    assert (saved.path, saved.kept) == (default_output(TARGET), "wide")
    assert read(default_output(TARGET)).run_id == "wide"


def test_a_file_that_the_user_named_holds_what_its_run_found(store: Store) -> None:
    study, best = ended(store, "own.yaml", Conclusion.KEEP_DEFAULTS)
    saved = save_file(study, store, best)
    assert (saved.path, saved.kept) == (Path("own.yaml"), "wide")
    own = read(Path("own.yaml"))
    assert own.run_id == "narrow"
    assert own.evidence.pinned == {"strategy": "ddp"}
    assert own.evidence.shared_with == ("run r2 (pid 7)",)


def test_an_unconfirmed_answer_goes_beside_a_confirmed_file(store: Store) -> None:
    study, best = ended(store, "own.yaml", Conclusion.KEEP_DEFAULTS)
    save_file(study, store, best)
    unconfirmed = replace(best, conclusion=Conclusion.UNCONFIRMED)
    assert save_file(study, store, unconfirmed).path == Path("own.unconfirmed.yaml")
    assert read(Path("own.yaml")).conclusion is Conclusion.KEEP_DEFAULTS


def test_a_resumed_study_keeps_who_shared_the_machine_before(store: Store) -> None:
    keep_answer(store, a_best(run_id="wide"), ("run r2 (pid 7)",))
    assert shared_before(store, WIDE) == ("run r2 (pid 7)",)
    assert shared_before(store, a_study("another", spec=WIDE.spec)) == ()


def test_nothing_found_is_nothing_saved(store: Store, here: Path) -> None:
    assert save_file(WIDE, store, None).path is None
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("name", ["/etc/x", "../../x", "a/../../x"])
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    for target in (replace(TARGET, instance=name), replace(TARGET, workload=name)):
        assert default_output(target).parent == Path("best")

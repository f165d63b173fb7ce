"""Every sentence of the contract on `Store`, over every store."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from autotune.errors import StorageError
from autotune.model import (
    Candidate,
    Conclusion,
    Outcome,
    Phase,
    Study,
    StudySpec,
    StudyStatus,
    TrainingSettings,
)
from autotune.storage import Store
from tests.conformance.records import (
    NAN,
    NOON,
    TARGET,
    a_best,
    a_measurement,
    a_study,
    a_target,
    a_trial,
    same,
)


def the_study(store: Store) -> Study:
    study = store.study("r")
    assert study is not None
    return study


def test_a_new_store_is_empty(store: Store) -> None:
    assert (list(store.studies()), list(store.bests())) == ([], [])
    assert store.study("r") is None
    assert list(store.trials("r")) == []
    assert store.best(TARGET) is None


def test_a_study_is_found_by_exactly_its_run_id(store: Store) -> None:
    store.add_study(a_study("run-1"))
    assert store.study("run") is None
    assert store.study("RUN-1") is None
    assert store.study("run-%") is None
    assert same(store.study("run-1"), a_study("run-1"))


def test_the_same_study_again_changes_nothing(store: Store) -> None:
    store.add_study(a_study())
    store.add_study(a_study())
    store.add_study(a_study(created_at=NOON.astimezone()))
    assert same(store.studies(), [a_study()])


def test_another_study_under_the_run_id_is_refused(store: Store) -> None:
    store.add_study(a_study())
    with pytest.raises(StorageError, match="run 'r' is there already, with other content"):
        store.add_study(a_study(reason="another"))
    assert same(store.studies(), [a_study()])


def test_update_sets_the_state_and_nothing_else(store: Store) -> None:
    store.add_study(a_study())
    before = datetime.now(UTC)
    made = store.update_study(
        "r", status=StudyStatus.FINISHED, conclusion=Conclusion.IMPROVED, reason="10 % faster"
    )
    assert before <= made.updated_at <= datetime.now(UTC)
    assert same(
        made,
        a_study(
            status=StudyStatus.FINISHED, conclusion=Conclusion.IMPROVED, reason="10 % faster",
            updated_at=made.updated_at,
        ),
    )  # fmt: skip
    assert same(the_study(store), made)


def test_update_without_a_conclusion_takes_it_back(store: Store) -> None:
    store.add_study(a_study(conclusion=Conclusion.UNCONFIRMED, reason="interrupted"))
    store.update_study("r", status=StudyStatus.RUNNING)
    assert (the_study(store).conclusion, the_study(store).reason) == (None, "")


def test_update_leaves_other_studies_alone(store: Store) -> None:
    store.add_study(a_study())
    store.add_study(a_study("other"))
    store.update_study("r", status=StudyStatus.INTERRUPTED)
    assert same(store.study("other"), a_study("other"))


def test_an_unknown_run_is_an_error_for_writers_only(store: Store) -> None:
    with pytest.raises(StorageError, match="no run 'nobody'"):
        store.update_study("nobody", status=StudyStatus.FINISHED)
    with pytest.raises(StorageError, match="no run 'nobody'"):
        store.add_trial(a_trial(run_id="nobody"))
    assert list(store.trials("nobody")) == []
    assert list(store.studies()) == []


def test_studies_come_the_oldest_first(store: Store) -> None:
    ages = {"c": 3, "a": 1, "b": 2, "Z": 2, "d": 0}
    for run_id, hours in ages.items():
        store.add_study(a_study(run_id, created_at=NOON - timedelta(hours=hours)))
    # A tie is broken by run_id, by code point whatever the database's collation is.
    assert [study.run_id for study in store.studies()] == ["c", "Z", "b", "a", "d"]


def test_trials_come_by_number_with_their_own_windows(store: Store) -> None:
    store.add_study(a_study())
    store.add_study(a_study("other"))
    trials = {n: a_trial(n, measurement=a_measurement(build_s=float(n))) for n in (10, 9, 0, 2)}
    trials[2] = a_trial(2, measurement=None, outcome=Outcome.CRASHED)
    trials[0] = a_trial(0, outcome=Outcome.PRUNED, measurement=a_measurement(windows=()))
    for trial in trials.values():
        store.add_trial(trial)
    store.add_trial(a_trial(5, run_id="other"))
    assert same(store.trials("r"), [trials[n] for n in (0, 2, 9, 10)])
    assert [trial.number for trial in store.trials("other")] == [5]


def test_the_same_trial_again_changes_nothing(store: Store) -> None:
    store.add_study(a_study())
    trial = a_trial(measurement=a_measurement(losses=(NAN,)))
    for again in (trial, trial, replace(trial, started_at=trial.started_at.astimezone())):
        store.add_trial(again)
    assert same(store.trials("r"), [trial])


def test_a_whole_number_is_the_same_float_again(store: Store) -> None:
    store.add_study(a_study())
    store.add_trial(a_trial(seconds=3))
    store.add_trial(a_trial(seconds=3))
    store.add_trial(a_trial(seconds=3.0))


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": Outcome.PRUNED},
        {"seconds": 13.0},
        {"settings": TrainingSettings(micro_batch=8)},
        {"candidate": Candidate({"strategy": "ddp", "reshard": 1, "groups": 1, "ratio": 1.0})},
        {"measurement": None},
        {"measurement": a_measurement(windows=a_measurement().windows[:2])},
        {"measurement": a_measurement(windows=())},
        {"log_tail": "more"},
    ],
)
def test_another_trial_under_the_number_is_refused(store: Store, change: dict[str, Any]) -> None:
    store.add_study(a_study())
    store.add_trial(a_trial(4))
    with pytest.raises(StorageError, match="trial 4 of run 'r' is there already, with other"):
        store.add_trial(a_trial(4, **change))
    assert same(store.trials("r"), [a_trial(4)])


def test_what_a_caller_does_to_its_record_later_reaches_no_store(store: Store) -> None:
    environment = {"NCCL_ALGO": "Ring"}
    store.add_study(a_study())
    store.add_trial(a_trial(environment=environment))
    store.save_best(a_best(environment=environment))
    environment["NCCL_ALGO"] = "Tree"
    assert store.trials("r")[0].environment == {"NCCL_ALGO": "Ring"}
    assert store.bests()[0].environment == {"NCCL_ALGO": "Ring"}


CONFIRMED = (Conclusion.IMPROVED, Conclusion.KEEP_DEFAULTS)


@pytest.mark.parametrize("old", [*CONFIRMED, Conclusion.UNCONFIRMED])
@pytest.mark.parametrize("new", [*CONFIRMED, Conclusion.UNCONFIRMED])
@pytest.mark.parametrize("run_id", ["r", "another"])
def test_of_runs_that_looked_at_as_much_only_an_unconfirmed_answer_fails_to_replace(
    store: Store, old: Conclusion, new: Conclusion, run_id: str
) -> None:
    first = a_best(old)
    second = a_best(new, run_id, environment={"NCCL_ALGO": "Tree"}, versions={})
    store.save_best(first)
    store.save_best(second)
    kept = new is Conclusion.UNCONFIRMED and old in CONFIRMED and run_id == "another"
    assert same(store.best(TARGET), first if kept else second)
    assert len(store.bests()) == 1


WIDE = StudySpec(target=TARGET)


def save(
    store: Store,
    run_id: str,
    conclusion: Conclusion,
    rate: float = 640.0,
    *,
    tried: int = 4,
    versions: dict[str, str] | None = None,
    **spec: Any,
) -> None:
    """An answer with its study, `tried` trials of its search, and the samples/s it says to use."""
    store.add_study(a_study(run_id, spec=replace(WIDE, **spec)))
    store.add_trial(a_trial(0, run_id, phase=Phase.BASELINE))
    for number in range(1, tried + 1):
        store.add_trial(a_trial(number, run_id))
    evidence = a_best().evidence
    assert evidence.winner is not None
    winner = replace(evidence.winner, samples_per_second=rate)
    keeps = conclusion is Conclusion.KEEP_DEFAULTS
    evidence = (
        replace(evidence, winner=None, ratio=None, baseline=winner)
        if keeps
        else replace(evidence, winner=winner)
    )
    best = a_best(conclusion, run_id, evidence=evidence)
    store.save_best(best if versions is None else replace(best, versions=versions))


def run_of_the_answer(store: Store) -> str:
    best = store.best(TARGET)
    assert best is not None
    return best.run_id


LESS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"pinned": {"strategy": "ddp"}}),
    ({"pinned": {"strategy": "ddp"}}, {"pinned": {"strategy": "hybrid"}}),
    ({"pinned": {"reshard": 1}}, {"pinned": {"reshard": True}}),
    ({}, {"environment": {"NCCL_ALGO": "Ring"}}),
    ({}, {"only": ("bucket_cap_mb",)}),
    ({"only": ("a", "b")}, {"only": ("b", "c")}),
    ({"space": "full"}, {}),
    ({"space": "full"}, {"space": "mine.yaml", "space_text": "x"}),
    ({"space": "mine.yaml", "space_text": "x"}, {"space": "mine.yaml", "space_text": "y"}),
    ({"tried": 9}, {"tried": 4}),
    ({"tried": 1}, {"tried": 0}),
]
"""What a study looked at, and what one that looked at less did."""

AS_MUCH: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"pinned": {"strategy": "ddp"}}, {}),
    ({"pinned": {"a": 1, "b": 2}}, {"pinned": {"b": 2}}),
    ({"environment": {"NCCL_ALGO": "Ring"}}, {}),
    ({"only": ("a",)}, {}),
    ({"only": ("a",)}, {"only": ("b", "a")}),
    ({"space": "full"}, {"space": "full"}),
    ({}, {"space": "full"}),
    ({}, {"space": "mine.yaml", "space_text": "x"}),
    ({"space": "mine.yaml", "space_text": "x"}, {"space": "other.yaml", "space_text": "x"}),
    ({"tried": 8}, {"tried": 4}),
    ({"tried": 0}, {"tried": 0}),
]


@pytest.mark.parametrize(("first", "second"), LESS)
@pytest.mark.parametrize("old", CONFIRMED)
def test_a_study_that_looked_at_less_replaces_a_confirmed_answer_with_a_faster_one_only(
    store: Store, old: Conclusion, first: dict[str, Any], second: dict[str, Any]
) -> None:
    save(store, "old", old, 640.0, **first)
    save(store, "keeps", Conclusion.KEEP_DEFAULTS, 999.0, **second)
    assert run_of_the_answer(store) == "old"
    save(store, "slower", Conclusion.IMPROVED, 639.0, **second)
    assert run_of_the_answer(store) == "old"
    save(store, "faster", Conclusion.IMPROVED, 641.0, **second)
    assert run_of_the_answer(store) == "faster"


@pytest.mark.parametrize(("first", "second"), AS_MUCH)
@pytest.mark.parametrize("new", CONFIRMED)
def test_a_study_that_looked_at_as_much_replaces_the_answer(
    store: Store, new: Conclusion, first: dict[str, Any], second: dict[str, Any]
) -> None:
    save(store, "old", Conclusion.IMPROVED, 640.0, **first)
    save(store, "new", new, 500.0, **second)
    assert run_of_the_answer(store) == "new"


def test_a_figure_of_other_versions_is_no_reason_to_keep_an_answer(store: Store) -> None:
    save(store, "old", Conclusion.IMPROVED, 640.0)
    narrow = {"pinned": {"strategy": "ddp"}, "versions": {"torch": "3.0"}}
    save(store, "keeps", Conclusion.KEEP_DEFAULTS, 500.0, **narrow)
    assert run_of_the_answer(store) == "old"
    save(store, "new", Conclusion.IMPROVED, 500.0, **narrow)
    assert run_of_the_answer(store) == "new"


def test_an_unconfirmed_answer_gives_way_to_any_other(store: Store) -> None:
    save(store, "old", Conclusion.UNCONFIRMED, 900.0)
    save(store, "newer", Conclusion.UNCONFIRMED, 500.0, pinned={"strategy": "ddp"})
    assert run_of_the_answer(store) == "newer"
    save(store, "keeps", Conclusion.KEEP_DEFAULTS, 500.0, tried=0, only=("a",))
    assert run_of_the_answer(store) == "keeps"


@pytest.mark.parametrize(
    "change",
    [{"instance": "local"}, {"nodes": 2}, {"ranks_per_node": 4}, {"workload": "mini"},
     {"global_batch": 128}],
)  # fmt: skip
def test_an_answer_is_for_exactly_its_target(store: Store, change: dict[str, Any]) -> None:
    other = a_target(**change)
    settings = TrainingSettings(micro_batch=other.global_batch // other.ranks)
    store.save_best(a_best())
    assert store.best(other) is None
    store.save_best(a_best(Conclusion.UNCONFIRMED, "another", target=other, settings=settings))
    assert same(store.best(TARGET), a_best())
    found = store.best(other)
    assert found is not None
    assert found.target == other


def test_answers_come_by_target(store: Store) -> None:
    changes = ({"instance": "b"}, {"workload": "Z"}, {"instance": "B"}, {"workload": "a"},
               {"ranks_per_node": 16}, {"ranks_per_node": 4})  # fmt: skip
    targets = [a_target(**change) for change in changes]
    for target in targets:
        settings = TrainingSettings(micro_batch=target.global_batch // target.ranks)
        store.save_best(a_best(target=target, settings=settings))
    order = [(b.target.instance, b.target.ranks_per_node, b.target.workload) for b in store.bests()]
    assert order == [
        ("B", 8, "tiny"), ("b", 8, "tiny"), ("p4d.24xlarge", 4, "tiny"),
        ("p4d.24xlarge", 8, "Z"), ("p4d.24xlarge", 8, "a"), ("p4d.24xlarge", 16, "tiny"),
    ]  # fmt: skip

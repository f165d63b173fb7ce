"""Every store gives back what it was given, from plain to odd."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.model import (
    Candidate,
    Conclusion,
    KnobValue,
    Outcome,
    Phase,
    ShardingStrategy,
    Study,
    StudySpec,
    TrainingSettings,
    Trial,
    Window,
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


def round_trip(store: Store, trial: Trial) -> Trial:
    if store.study(trial.run_id) is None:
        store.add_study(a_study(trial.run_id))
    store.add_trial(trial)
    return next(t for t in store.trials(trial.run_id) if t.number == trial.number)


INF = float("inf")
SHORTEST = Window(index=0, steps=1, samples=1, seconds=1e-9)
HYBRID = TrainingSettings(
    strategy=ShardingStrategy.HYBRID, micro_batch=1, reshard_after_forward=True, shard_size=4
)


@pytest.mark.parametrize(
    "trial",
    [
        a_trial(),
        a_trial(seconds=0.0),
        a_trial(seconds=5e-324),
        a_trial(seconds=1e15),
        a_trial(measurement=None, outcome=Outcome.HUNG, failed_rank=3, reason="rank 3 hung"),
        a_trial(outcome=Outcome.PRUNED, measurement=a_measurement(windows=())),
        a_trial(measurement=a_measurement(losses=(NAN, INF, -INF, -0.0), build_s=-0.01)),
        a_trial(
            measurement=a_measurement(
                windows=tuple(
                    Window(index=7 - i, steps=2**40, samples=2**50, seconds=s)
                    for i, s in enumerate((1e-100, 1e15, 0.1 + 0.2))
                )
            )
        ),
        a_trial(measurement=a_measurement(windows=(SHORTEST,))),
        a_trial(settings=HYBRID),
        a_trial(candidate=Candidate({}), environment={}),
        a_trial(log_tail="NUL \0, a lone \udcff, ünïcödé 🚂, \r\n", reason="\0", log_path="\udc80"),
        a_trial(environment={"A\0": "\udcff"}),
    ],
)  # fmt: skip
def test_a_trial_is_read_as_it_was_written(store: Store, trial: Trial) -> None:
    assert same(round_trip(store, trial), trial)


@pytest.mark.parametrize(
    "study",
    [
        a_study(),
        a_study(reason="a \0 in it", conclusion=Conclusion.NO_CANDIDATE),
        a_study(spec=StudySpec(target=a_target(global_batch=2**40), output="best.yaml")),
    ],
)
def test_a_study_is_read_as_it_was_written(store: Store, study: Study) -> None:
    store.add_study(study)
    found = store.study("r")
    assert found is not None
    assert same(found, study)
    assert same(store.studies(), [study])


def test_a_best_configuration_is_read_as_it_was_written(store: Store) -> None:
    best = a_best()
    store.save_best(best)
    assert same(store.best(TARGET), best)
    assert same(store.bests(), [best])


def test_times_keep_their_instant_and_come_back_in_utc(store: Store) -> None:
    east = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))
    found = round_trip(store, a_trial(started_at=east))
    assert found.started_at == NOON
    assert found.started_at.tzinfo is UTC
    store.add_study(a_study("other", created_at=east, updated_at=east))
    other = store.study("other")
    assert other is not None
    assert (other.created_at, other.created_at.tzinfo) == (NOON, UTC)
    store.save_best(a_best(created_at=east))
    (best,) = store.bests()
    assert (best.created_at, best.created_at.tzinfo) == (NOON, UTC)


# What a log holds may be no text at all.
TEXT = st.text(max_size=8) | st.binary(max_size=8).map(
    lambda b: b.decode("utf8", "surrogateescape")
)
SMALL = st.integers(0, 2**31 - 1)
KNOBS: st.SearchStrategy[Mapping[str, KnobValue]] = st.dictionaries(
    TEXT,
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    max_size=3,
)
TIMES = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1)).flatmap(  # noqa: DTZ001 - below
    lambda t: st.integers(-840, 840).map(
        lambda minutes: t.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    )
)
WINDOWS = st.builds(
    Window, index=SMALL, steps=st.integers(1, 2**62), samples=st.integers(1, 2**31 - 1),
    seconds=st.floats(1e-100, 1e15),
)  # fmt: skip
MEASUREMENTS = st.builds(
    a_measurement,
    windows=st.lists(WINDOWS, min_size=1, max_size=4).map(tuple),
    losses=st.lists(st.floats(), max_size=3).map(tuple),
    build_s=st.floats(-1e15, 1e15),
    effective=KNOBS,
    versions=st.dictionaries(TEXT, TEXT, max_size=2),
)
TRIALS = st.builds(
    a_trial,
    phase=st.sampled_from(Phase),
    candidate=KNOBS.map(Candidate),
    environment=st.dictionaries(TEXT, TEXT, max_size=2),
    outcome=st.sampled_from(Outcome),
    reason=TEXT,
    failed_rank=st.none() | SMALL,
    started_at=TIMES,
    # A time has no sign at zero, and SQLite's numbers have none there.
    seconds=st.floats(0, 1e15).map(lambda seconds: seconds + 0.0),
    measurement=st.none() | MEASUREMENTS,
    log_path=TEXT,
    log_tail=TEXT,
)
RUNS = count()


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(trial=TRIALS)
def test_any_trial_is_read_as_it_was_written(store: Store, trial: Trial) -> None:
    trial = replace(trial, run_id=f"run-{next(RUNS)}")
    found = round_trip(store, trial)
    assert same(found, replace(trial, started_at=trial.started_at.astimezone(UTC)))
    # Written again it is no news, whatever is in it.
    store.add_trial(trial)

"""A study as one of Optuna's, so that its tools and optuna-dashboard open it."""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from autotune.errors import FieldError, StorageError
from autotune.model import KnobValue, Outcome, Study, Trial, encode
from autotune.model.secrets import redacted
from autotune.report.readings import baseline_of, measured
from autotune.report.text import shown
from autotune.scoring.score import score

FIELD = "--output"
INFEASIBLE = "infeasible"
"""Name of the constraint: 1 for a candidate that can't work, else 0."""

optuna.logging.set_verbosity(optuna.logging.WARNING)
_FORMS = ("sqlite:///FILE", "postgresql://USER@HOST/NAME")
_STATES = {Outcome.COMPLETED: TrialState.COMPLETE, Outcome.PRUNED: TrialState.PRUNED}


def check_url(url: str) -> None:
    """Raises FieldError for what is no URL of a database."""
    try:
        driver = make_url(url).drivername
    except (ArgumentError, ValueError):
        raise FieldError(
            FIELD, redacted(url), "is not a database's URL", alternatives=_FORMS
        ) from None
    if driver.partition("+")[0] not in ("sqlite", "postgresql"):
        raise FieldError(
            FIELD, driver, "is not a kind of database that is used here", alternatives=_FORMS
        )


def write_optuna(study: Study, trials: Sequence[Trial], url: str) -> str:
    """Add `study` to the Optuna storage at `url`, and return its name there.

    Raises FieldError for a URL that can't be used or a storage that holds the study already, and
    StorageError if the database can't be written.
    """
    check_url(url)
    name = f"autotune-{study.run_id}"
    try:
        storage = RDBStorage(url)
        if name in {known.study_name for known in storage.get_all_studies()}:
            raise FieldError(FIELD, redacted(url), f"holds the study {name} already")
        _write(storage, name, study, trials)
    except (SQLAlchemyError, ImportError, RuntimeError) as error:
        cause = redacted(str(error).partition("\n")[0])
        raise StorageError(f"{redacted(url)}: can't be written as Optuna's: {cause}") from None
    return name


def frozen_trials(trials: Sequence[Trial]) -> list[FrozenTrial]:
    """`trials` as Optuna's; those whose figures make no sense have failed."""
    distributions = _distributions(trials)
    return [_frozen(trial, distributions) for trial in trials]


def _write(storage: RDBStorage, name: str, study: Study, trials: Sequence[Trial]) -> None:
    """All of the study or nothing: half of one would look like a shorter one."""
    made = optuna.create_study(storage=storage, study_name=name, direction="maximize")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            made.set_metric_names(["samples_per_second"])
        for key, value in _study_attributes(study, trials).items():
            made.set_user_attr(key, value)
        made.add_trials(frozen_trials(trials))
    except BaseException:
        optuna.delete_study(study_name=name, storage=storage)
        raise


def _study_attributes(study: Study, trials: Sequence[Trial]) -> dict[str, Any]:
    baseline = baseline_of(trials)
    return {
        "run": study.run_id,
        "kind": "simulated" if study.spec.target.is_simulated else "measured",
        "for": study.spec.target.describe(),
        "machine": study.machine.describe(),
        "conclusion": encode(study.conclusion),
        "reason": study.reason,
        "baseline": {} if baseline is None else dict(baseline),
    }


def _distributions(trials: Iterable[Trial]) -> Mapping[str, BaseDistribution]:
    """Of each knob that was varied, all values that were launched."""
    values: dict[str, dict[str, KnobValue]] = {}
    for trial in trials:
        for name, value in trial.candidate.items():
            values.setdefault(name, {})[json.dumps(value)] = value
    return {
        name: CategoricalDistribution(_choices(found.values()))
        for name, found in values.items()
        if len(found) > 1
    }


def _choices(values: Iterable[KnobValue]) -> tuple[KnobValue, ...]:
    # Numbers in their order, then texts in theirs.
    ordered = tuple(sorted(values, key=lambda v: (1, 0, v) if isinstance(v, str) else (0, v, "")))
    # To Optuna True is 1: where a knob has both, its values are texts.
    return ordered if len(set(ordered)) == len(ordered) else tuple(map(shown, ordered))


def _frozen(trial: Trial, distributions: Mapping[str, BaseDistribution]) -> FrozenTrial:
    found = measured(trial)
    state = _STATES.get(trial.outcome, TrialState.FAIL) if found else TrialState.FAIL
    rate = score(found).samples_per_second if found else None
    own = {name: distributions[name] for name in trial.candidate if name in distributions}
    made = create_trial(
        state=state,
        value=rate if state is TrialState.COMPLETE else None,
        params={name: _param(trial.candidate[name], own[name]) for name in own},
        distributions=own,
        user_attrs=_attributes(trial),
        intermediate_values={
            window.index: window.samples_per_second for window in (found.windows if found else ())
        },
        constraints={INFEASIBLE: float(trial.outcome.is_infeasible)},
    )
    made.datetime_start = _naive(trial.started_at)
    made.datetime_complete = _naive(trial.started_at + timedelta(seconds=trial.seconds))
    return made


def _param(value: KnobValue, distribution: BaseDistribution) -> KnobValue:
    choices = getattr(distribution, "choices", ())
    return value if any(type(c) is type(value) and c == value for c in choices) else shown(value)


def _attributes(trial: Trial) -> dict[str, Any]:
    found = measured(trial)
    figures = {
        "stability": score(found).stability if found else None,
        "peak_memory_bytes": max(found.peak_memory_bytes, default=None) if found else None,
    }
    return {
        "trial": trial.number,
        "phase": trial.phase.value,
        "outcome": trial.outcome.value,
        "reason": trial.reason,
        "environment": dict(trial.environment),
        **{name: value for name, value in figures.items() if value is not None},
    }


def _naive(at: datetime) -> datetime:
    """As Optuna has it: local time without its zone."""
    return at.astimezone().replace(tzinfo=None)

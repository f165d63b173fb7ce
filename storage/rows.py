"""Records to rows and back, by the codec. Reading raises FieldError with table, record, field."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import TypeVar

from autotune.errors import FieldError
from autotune.model import BestConfiguration, Job, Study, Trial, Window, decode, encode
from autotune.model.codec import Json
from autotune.storage.columns import NotJson
from autotune.storage.lease import Lease, Owner
from autotune.storage.ranges import check_ranges, check_time
from autotune.storage.tables import (
    TARGET,
    Base,
    BestRow,
    JobRow,
    LeaseRow,
    StudyRow,
    TrialRow,
    WindowRow,
)

Record = TypeVar("Record")
Row = Mapping[str, Json]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _StoredLease:
    run_id: str
    token: str
    owner: Owner
    clock: str
    ends_s: float


def study_values(study: Study) -> Row:
    """Column values for `study`."""
    values = encode(study)
    return {**values, **values["spec"].pop("target")}


def read_study(row: StudyRow) -> Study:
    """The study that `study_values` came from."""
    values = _values(row)
    target = {name: values.pop(name) for name in TARGET}
    if isinstance(values["spec"], dict):
        values["spec"] = {**values["spec"], "target": target}
    return _decode(Study, values, _place(row, "run_id"))


def trial_values(trial: Trial) -> Row:
    """Column values for `trial`, without its windows."""
    values: dict[str, Json] = encode(trial)
    if trial.measurement is not None:
        del values["measurement"]["windows"]
    return values


def window_values(trial: Trial) -> list[Row]:
    """Column values for the windows of `trial`."""
    windows = trial.measurement.windows if trial.measurement else ()
    return [
        {"run_id": trial.run_id, "number": trial.number, "position": position, **encode(window)}
        for position, window in enumerate(windows)
    ]


def read_trial(row: TrialRow, windows: Iterable[WindowRow]) -> Trial:
    """The trial that `trial_values` and `window_values` came from."""
    values = _values(row)
    if values["left_behind"] is None:
        del values["left_behind"]
    if isinstance(values["measurement"], dict):
        values["measurement"] = {**values["measurement"], "windows": []}
    place = _place(row, "run_id", "number")
    trial = _decode_only(Trial, values, place)
    if trial.measurement is not None:
        measured = dataclasses.replace(
            trial.measurement, windows=tuple(_read_window(window) for window in windows)
        )
        trial = dataclasses.replace(trial, measurement=measured)
    check_ranges(trial, place)
    return trial


def _read_window(row: WindowRow) -> Window:
    values = _values(row)
    own = {name: values[name] for name in ("index", "steps", "samples", "seconds")}
    return _decode(Window, own, _place(row, "run_id", "number", "position"))


def best_values(best: BestConfiguration) -> Row:
    """Column values for `best`."""
    values = encode(best)
    return {**values.pop("target"), **values}


def read_best(row: BestRow) -> BestConfiguration:
    """The answer that `best_values` came from."""
    values = _values(row)
    del values["id"]
    values["target"] = {name: values.pop(name) for name in TARGET}
    return _decode(BestConfiguration, values, _place(row, *TARGET))


def job_values(job: Job) -> Row:
    """Column values for `job`."""
    values: dict[str, Json] = encode(job)
    own = {name: values.pop(name) for name in ("name", "run_id", "submitted_at")}
    return {**own, "job": values}


def read_job(row: JobRow) -> Job:
    """The job that `job_values` came from."""
    values = _values(row)
    rest = values.pop("job")
    return _decode(
        Job, {**rest, **values} if isinstance(rest, dict) else values, _place(row, "name")
    )


def lease_values(run_id: str, owner: Owner, clock: str, ends_s: float) -> Row:
    """Column values for a lease of `run_id`."""
    return {
        "run_id": run_id, "token": owner.token, "owner": encode(owner), "clock": clock,
        "ends_s": ends_s,
    }  # fmt: skip


def read_lease(row: LeaseRow, clock: str, now_s: float) -> Lease:
    """The lease as it stands at `now_s` of `clock`; one by another clock has ended."""
    place = _place(row, "run_id")
    stored = _decode(_StoredLease, _values(row), place)
    check_time(stored.ends_s, f"{place}.ends_s")
    left_s = stored.ends_s - now_s if stored.clock == clock else -math.inf
    return Lease(run_id=stored.run_id, owner=stored.owner, left_s=left_s)


def _values(row: Base) -> dict[str, Json]:
    return {column.key: getattr(row, column.key) for column in row.__table__.columns}


def _place(row: Base, *key: str) -> str:
    named = ", ".join(f"{name}={getattr(row, name)!r}" for name in key)
    return f"{row.__tablename__}[{named}]"


def _decode(kind: type[Record], values: dict[str, Json], place: str) -> Record:
    record = _decode_only(kind, values, place)
    check_ranges(record, place)
    return record


def _decode_only(kind: type[Record], values: dict[str, Json], place: str) -> Record:
    for name, value in values.items():
        if isinstance(value, NotJson):
            raise FieldError(f"{place}.{name}", value.text, "is not JSON")
    return decode(kind, values, place)

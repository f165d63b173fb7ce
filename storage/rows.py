"""Records to rows and back, by the codec. Reading raises FieldError with table, record, field."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeVar

from autotune.errors import FieldError
from autotune.model import BestConfiguration, Study, Trial, Window, decode, encode
from autotune.model.codec import Json
from autotune.storage.columns import NotJson
from autotune.storage.tables import TARGET, Base, BestRow, StudyRow, TrialRow, WindowRow

Record = TypeVar("Record")
Row = Mapping[str, Json]


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
    if isinstance(values["measurement"], dict):
        values["measurement"] = {**values["measurement"], "windows": []}
    trial = _decode(Trial, values, _place(row, "run_id", "number"))
    if trial.measurement is None:
        return trial
    measured = dataclasses.replace(
        trial.measurement, windows=tuple(_read_window(window) for window in windows)
    )
    return dataclasses.replace(trial, measurement=measured)


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


def _values(row: Base) -> dict[str, Json]:
    return {column.key: getattr(row, column.key) for column in row.__table__.columns}


def _place(row: Base, *key: str) -> str:
    named = ", ".join(f"{name}={getattr(row, name)!r}" for name in key)
    return f"{row.__tablename__}[{named}]"


def _decode(kind: type[Record], values: dict[str, Json], place: str) -> Record:
    for name, value in values.items():
        if isinstance(value, NotJson):
            raise FieldError(f"{place}.{name}", value.text, "is not JSON")
    return decode(kind, values, place)

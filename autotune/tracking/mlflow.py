"""MLflow: a run for the study, and one below it for each trial."""

import logging
import time
from collections.abc import Mapping
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

from autotune.tracking.base import Closing, Entry, Opening, Tracker

logging.getLogger("mlflow").setLevel(logging.WARNING)
EXPERIMENT = "autotune"
_RUN = "autotune.run"
_LONGEST = 250
"""Characters of a tag or parameter that every store takes."""


class MlflowTracker(Tracker):
    """Records at a tracking URI, such as sqlite:///mlflow.db or http://HOST:5000."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._client: Any = None
        self._experiment = ""
        self._study = ""

    def begin(self, opening: Opening) -> None:
        # The client itself: the module's functions would change what the whole process logs to.
        self._client = MlflowClient(tracking_uri=self._uri)
        known = self._client.get_experiment_by_name(EXPERIMENT)
        self._experiment = (
            known.experiment_id if known else self._client.create_experiment(EXPERIMENT)
        )
        self._study = self._earlier(opening.run) or self._new_run(
            f"autotune {opening.run}", {_RUN: opening.run}
        )
        params = [Param(name, text[:_LONGEST]) for name, text in opening.texts.items()]
        self._client.log_batch(self._study, params=params)

    def add(self, entry: Entry) -> None:
        own = self._new_run(
            f"trial {entry.number}", {"mlflow.parentRunId": self._study, **entry.texts}
        )
        params = [Param(name, text[:_LONGEST]) for name, text in entry.settings.items()]
        self._client.log_batch(own, metrics=_metrics(entry.figures), params=params)
        self._client.log_batch(self._study, metrics=_metrics(entry.figures, entry.number))
        worked = entry.texts.get("outcome") in ("completed", "pruned")
        self._client.set_terminated(own, status="FINISHED" if worked else "FAILED")

    def end(self, closing: Closing) -> None:
        tags = [RunTag(name, text[:_LONGEST]) for name, text in closing.texts.items()]
        self._client.log_batch(self._study, metrics=_metrics(closing.figures), tags=tags)
        killed = closing.texts.get("interrupted") == "true"
        self._client.set_terminated(self._study, status="KILLED" if killed else "FINISHED")

    def close(self) -> None:
        """Everything is written by then."""

    def _earlier(self, run: str) -> str:
        """The record of an earlier invocation; empty if there is none."""
        found = self._client.search_runs([self._experiment], f"tags.`{_RUN}` = '{run}'")
        return str(found[0].info.run_id) if found else ""

    def _new_run(self, name: str, tags: Mapping[str, str]) -> str:
        short = {tag: text[:_LONGEST] for tag, text in tags.items()}
        made = self._client.create_run(self._experiment, run_name=name, tags=short)
        return str(made.info.run_id)


def _metrics(figures: Mapping[str, float], step: int = 0) -> list[Metric]:
    now_ms = round(1000 * time.time())
    return [Metric(name, value, now_ms, step) for name, value in figures.items()]

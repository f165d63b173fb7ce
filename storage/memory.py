"""A store that ends with its process, for tests and simulations."""

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Lock

from autotune.errors import StorageError
from autotune.model import BestConfiguration, Conclusion, Phase, Study, StudyStatus, Target, Trial
from autotune.storage.base import Store
from autotune.storage.precedence import Answer, may_replace
from autotune.storage.records import (
    as_stored,
    by_target,
    describe,
    oldest_first,
    same_content,
)


class MemoryStore(Store):
    """Keeps the contract but for durability and other processes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._studies: dict[str, Study] = {}
        self._trials: dict[str, dict[int, Trial]] = {}
        self._bests: dict[Target, BestConfiguration] = {}

    def add_study(self, study: Study) -> None:
        with self._lock:
            kept = self._studies.setdefault(study.run_id, as_stored(study))
            self._trials.setdefault(study.run_id, {})
        _check_same(kept, study)

    def update_study(
        self,
        run_id: str,
        *,
        status: StudyStatus,
        conclusion: Conclusion | None = None,
        reason: str = "",
    ) -> Study:
        with self._lock:
            self._check_known(run_id)
            study = dataclasses.replace(
                self._studies[run_id],
                status=status,
                conclusion=conclusion,
                reason=reason,
                updated_at=datetime.now(UTC),
            )
            self._studies[run_id] = study
        return study

    def study(self, run_id: str) -> Study | None:
        return self._studies.get(run_id)

    def studies(self) -> Sequence[Study]:
        with self._lock:
            return oldest_first(self._studies.values())

    def add_trial(self, trial: Trial) -> None:
        with self._lock:
            self._check_known(trial.run_id)
            kept = self._trials[trial.run_id].setdefault(trial.number, as_stored(trial))
        _check_same(kept, trial)

    def trials(self, run_id: str) -> Sequence[Trial]:
        with self._lock:
            return [trial for _, trial in sorted(self._trials.get(run_id, {}).items())]

    def save_best(self, best: BestConfiguration) -> None:
        with self._lock:
            old = self._bests.get(best.target)
            if old is None or may_replace(self._answer(best), self._answer(old)):
                self._bests[best.target] = as_stored(best)

    def best(self, target: Target) -> BestConfiguration | None:
        return self._bests.get(target)

    def bests(self) -> Sequence[BestConfiguration]:
        with self._lock:
            return by_target(self._bests.values())

    def close(self) -> None:
        """Nothing to let go of."""

    def _answer(self, best: BestConfiguration) -> Answer:
        study = self._studies.get(best.run_id)
        trials = self._trials.get(best.run_id, {}).values()
        return Answer(
            best=best,
            spec=study.spec if study else None,
            tried=sum(trial.phase is Phase.SEARCH for trial in trials),
        )

    def _check_known(self, run_id: str) -> None:
        if run_id not in self._studies:
            raise StorageError(f"memory: there is no run {run_id!r}")


def _check_same(kept: Study | Trial, new: Study | Trial) -> None:
    if not same_content(kept, new):
        raise StorageError(f"memory: {describe(new)} is there already, with other content")

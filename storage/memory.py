"""A store that ends with its process, for tests and simulations."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from threading import Lock

from autotune.errors import StorageError
from autotune.model import (
    BestConfiguration,
    Conclusion,
    Job,
    Phase,
    Study,
    StudyStatus,
    Target,
    Trial,
)
from autotune.storage.base import OnUnreadable, Store, refuse
from autotune.storage.lease import Lease, Owner, lost
from autotune.storage.precedence import Answer, may_replace
from autotune.storage.records import (
    as_stored,
    by_target,
    describe,
    jobs_in_order,
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
        self._jobs: dict[str, Job] = {}
        self._leases: dict[str, tuple[Owner, float]] = {}
        """Each with its end, by time.monotonic()."""

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
        holder: str = "",
    ) -> Study:
        with self._lock:
            self._check_known(run_id)
            self._check_holder(run_id, holder)
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

    def studies(self, on_unreadable: OnUnreadable = refuse) -> Sequence[Study]:
        with self._lock:
            return oldest_first(self._studies.values())

    def add_trial(self, trial: Trial, *, holder: str = "") -> None:
        with self._lock:
            self._check_known(trial.run_id)
            self._check_holder(trial.run_id, holder)
            trials = self._trials[trial.run_id]
            kept = trials.get(trial.number)
            if kept is None:
                trials[trial.number] = as_stored(trial)
        if kept is not None:
            _check_same(kept, trial)

    def trials(self, run_id: str, on_unreadable: OnUnreadable = refuse) -> Sequence[Trial]:
        with self._lock:
            return [trial for _, trial in sorted(self._trials.get(run_id, {}).items())]

    def trial_counts(self) -> Mapping[str, int]:
        with self._lock:
            return {run_id: len(trials) for run_id, trials in self._trials.items() if trials}

    def save_best(self, best: BestConfiguration, *, holder: str = "") -> None:
        with self._lock:
            self._check_holder(best.run_id, holder)
            old = self._bests.get(best.target)
            if old is None or may_replace(self._answer(best), self._answer(old)):
                self._bests[best.target] = as_stored(best)

    def best(self, target: Target) -> BestConfiguration | None:
        return self._bests.get(target)

    def bests(self, on_unreadable: OnUnreadable = refuse) -> Sequence[BestConfiguration]:
        with self._lock:
            return by_target(self._bests.values())

    def take_lease(
        self, run_id: str, owner: Owner, seconds: float, *, instead_of: str = ""
    ) -> Lease:
        with self._lock:
            self._check_known(run_id)
            there = self._leases.get(run_id)
            if there and there[0].token not in (owner.token, instead_of):
                left_s = there[1] - time.monotonic()
                if left_s > 0:
                    return Lease(run_id=run_id, owner=there[0], left_s=left_s)
            self._leases[run_id] = (owner, time.monotonic() + seconds)
        return Lease(run_id=run_id, owner=owner, left_s=seconds)

    def renew_lease(self, run_id: str, token: str, seconds: float) -> bool:
        with self._lock:
            there = self._leases.get(run_id)
            if there is None or there[0].token != token:
                return False
            self._leases[run_id] = (there[0], time.monotonic() + seconds)
        return True

    def release_lease(self, run_id: str, token: str) -> None:
        with self._lock:
            if run_id in self._leases and self._leases[run_id][0].token == token:
                del self._leases[run_id]

    def leases(self, on_unreadable: OnUnreadable = refuse) -> Mapping[str, Lease]:
        with self._lock:
            now_s = time.monotonic()
            return {
                run_id: Lease(run_id=run_id, owner=owner, left_s=ends_s - now_s)
                for run_id, (owner, ends_s) in self._leases.items()
            }

    def add_job(self, job: Job) -> None:
        with self._lock:
            kept = self._jobs.setdefault(job.name, as_stored(job))
        _check_same(kept, job)

    def jobs(self, on_unreadable: OnUnreadable = refuse) -> Sequence[Job]:
        with self._lock:
            return jobs_in_order(self._jobs.values())

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

    def _check_holder(self, run_id: str, holder: str) -> None:
        there = self._leases.get(run_id)
        if holder and (there is None or there[0].token != holder):
            raise lost("memory", run_id)

    def _check_known(self, run_id: str) -> None:
        if run_id not in self._studies:
            raise StorageError(f"memory: there is no run {run_id!r}")


def _check_same(kept: Study | Trial | Job, new: Study | Trial | Job) -> None:
    if not same_content(kept, new):
        raise StorageError(f"memory: {describe(new)} is there already, with other content")

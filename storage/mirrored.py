"""A store whose run is mirrored elsewhere while a controller works on it."""

from collections.abc import Callable, Mapping, Sequence

from autotune.errors import FieldError, StorageError
from autotune.model import (
    BestConfiguration,
    Conclusion,
    Job,
    Study,
    StudyStatus,
    Target,
    Trial,
)
from autotune.storage.base import OnUnreadable, Store, refuse
from autotune.storage.changes import FOLDER, Record, Status, read_changes
from autotune.storage.folder import check_run_id
from autotune.storage.lease import Lease, Owner
from autotune.storage.mirror import Mirror
from autotune.storage.objects import OPTION, Objects
from autotune.storage.replay import apply_known, fold


class MirroredStore(Store):
    """Another store; what changes in it is sent to the objects under `root`, in the run's folder.

    A mirror begins with the run's lease and ends with it, so one controller writes at a time.
    """

    def __init__(self, store: Store, root: Objects, say: Callable[[str], None]) -> None:
        self._store = store
        self._root = root
        self._say = say
        self._mirrors: dict[str, Mirror] = {}

    def restore(self, run_id: str, check: Callable[[Study], None] = lambda _: None) -> bool:
        """Add what the mirror has of a run to the store: whether it has anything.

        `check` may refuse the study before. Raises FieldError for what is no run id and a mirror
        that can't be written, StorageError for one that can't be read, and as `check` does.
        """
        check_run_id(run_id)
        self._check_writable(run_id)
        known = fold(read_changes(self._root.within(run_id), run_id))
        if known.study is not None:
            check(known.study)
        apply_known(self._store, known)
        return known.last > 0

    def add_study(self, study: Study) -> None:
        # Here, where a mirror that can't be used still ends the command.
        self._check_writable(study.run_id)
        if self._root.within(study.run_id).names(FOLDER):
            raise FieldError(
                OPTION, f"{self._root.place}/{study.run_id}", "holds a run already",
                hint=f"go on with it: autotune resume {study.run_id} {OPTION} …",
            )  # fmt: skip
        self._store.add_study(study)

    def update_study(
        self,
        run_id: str,
        *,
        status: StudyStatus,
        conclusion: Conclusion | None = None,
        reason: str = "",
        holder: str = "",
    ) -> Study:
        self._check(run_id)
        study = self._store.update_study(
            run_id, status=status, conclusion=conclusion, reason=reason, holder=holder
        )
        self._send(Status.of(study))
        return study

    def add_trial(self, trial: Trial, *, holder: str = "") -> None:
        self._check(trial.run_id)
        self._store.add_trial(trial, holder=holder)
        self._send(trial)

    def save_best(self, best: BestConfiguration, *, holder: str = "") -> None:
        self._check(best.run_id)
        self._store.save_best(best, holder=holder)
        self._send(best)

    def take_lease(
        self, run_id: str, owner: Owner, seconds: float, *, instead_of: str = ""
    ) -> Lease:
        lease = self._store.take_lease(run_id, owner, seconds, instead_of=instead_of)
        if lease.owner == owner and run_id not in self._mirrors:
            objects = self._root.within(run_id)
            self._mirrors[run_id] = Mirror(self._store, objects, run_id, self._say)
        return lease

    def release_lease(self, run_id: str, token: str) -> None:
        # Before somebody else may write there.
        if mirror := self._mirrors.pop(run_id, None):
            mirror.close()
        self._store.release_lease(run_id, token)

    def close(self) -> None:
        for mirror in self._mirrors.values():
            mirror.close()
        self._mirrors.clear()
        self._store.close()

    def study(self, run_id: str) -> Study | None:
        return self._store.study(run_id)

    def studies(self, on_unreadable: OnUnreadable = refuse) -> Sequence[Study]:
        return self._store.studies(on_unreadable)

    def trials(self, run_id: str, on_unreadable: OnUnreadable = refuse) -> Sequence[Trial]:
        return self._store.trials(run_id, on_unreadable)

    def trial_counts(self) -> Mapping[str, int]:
        return self._store.trial_counts()

    def best(self, target: Target) -> BestConfiguration | None:
        return self._store.best(target)

    def bests(self, on_unreadable: OnUnreadable = refuse) -> Sequence[BestConfiguration]:
        return self._store.bests(on_unreadable)

    def renew_lease(self, run_id: str, token: str, seconds: float) -> bool:
        return self._store.renew_lease(run_id, token, seconds)

    def leases(self, on_unreadable: OnUnreadable = refuse) -> Mapping[str, Lease]:
        return self._store.leases(on_unreadable)

    def add_job(self, job: Job) -> None:
        self._store.add_job(job)

    def jobs(self, on_unreadable: OnUnreadable = refuse) -> Sequence[Job]:
        return self._store.jobs(on_unreadable)

    def _check_writable(self, run_id: str) -> None:
        objects = self._root.within(run_id)
        try:
            objects.check_writable()
        except StorageError as error:
            raise FieldError(
                OPTION, objects.place, f"can't be written: {error}", hint=error.hint
            ) from None

    def _check(self, run_id: str) -> None:
        if mirror := self._mirrors.get(run_id):
            mirror.check()

    def _send(self, record: Record) -> None:
        if mirror := self._mirrors.get(record.run_id):
            mirror.send(record)

"""A run's changes, folded, and brought together with a store: in both directions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from autotune.errors import StorageError
from autotune.model import BestConfiguration, Study, StudyStatus, Trial, encode
from autotune.storage.base import Store
from autotune.storage.changes import Change, Record, Status
from autotune.storage.records import as_stored, describe, same_content


@dataclass(frozen=True, kw_only=True)
class Known:
    """What a run's changes come to, or the part of them that was read."""

    last: int = 0
    """Number of the last change."""
    study: Study | None = None
    status: Status | None = None
    trials: tuple[Trial, ...] = ()
    best: BestConfiguration | None = None

    def has(self, record: Record) -> bool:
        """Whether `record` would add nothing."""
        if isinstance(record, Study):
            return self.study is not None
        if isinstance(record, Trial):
            # The newest one first: mostly it is the one that is asked about.
            return any(trial.number == record.number for trial in reversed(self.trials))
        if isinstance(record, Status):
            return self.status == record
        return self.best is not None and _same_best(self.best, record)

    def plus(self, record: Record) -> "Known":
        """With one more change."""
        after = replace(self, last=self.last + 1)
        if isinstance(record, Study):
            return replace(after, study=record, status=Status.of(record))
        if isinstance(record, Trial):
            return replace(after, trials=(*self.trials, record))
        if isinstance(record, Status):
            return replace(after, status=record)
        return replace(after, best=record)


def fold(changes: Iterable[Change], start: Known = Known()) -> Known:
    """`start` with `changes`, which follow it in their order."""
    known = start
    for change in changes:
        known = replace(known.plus(change.record), last=change.number)
    return known


def apply_changes(store: Store, changes: Iterable[Change]) -> int:
    """Have `store` hold what the changes say: the number of the last one, 0 without any.

    What is there already stays, so the same changes may come again. Raises StorageError, also if
    the store has something else under the same run and number.
    """
    known = fold(changes)
    apply_known(store, known)
    return known.last


def apply_known(store: Store, known: Known) -> None:
    """As `apply_changes`."""
    if known.study is not None:
        _add_study(store, known.study)
    if known.best is not None:
        _check_target(store, known.best)
    for trial in known.trials:
        store.add_trial(trial)
    if known.best is not None:
        store.save_best(known.best)
    if known.status is not None:
        _set_status(store, known.status)


def missing(store: Store, run_id: str, known: Known) -> Iterator[Record]:
    """What `store` has of the run beyond what is known, in an order that can be applied."""
    study = store.study(run_id)
    if study is None:
        return
    if known.study is None:
        yield study
    there = {trial.number for trial in known.trials}
    for trial in store.trials(run_id):
        if trial.number not in there:
            yield trial
    best = None if study.spec.target.is_simulated else store.best(study.spec.target)
    if best is not None and best.run_id == run_id and not known.has(best):
        yield best
    if known.study is not None and not known.has(Status.of(study)):
        yield Status.of(study)


def _add_study(store: Store, study: Study) -> None:
    there = store.study(study.run_id)
    if there is None:
        store.add_study(study)
    elif not same_content(_as_asked(there), _as_asked(study)):
        raise StorageError(f"{describe(study)} is in the store already, with other content")


def _check_target(store: Store, best: BestConfiguration) -> None:
    """Raise StorageError for an answer to another question than its study asked."""
    study = store.study(best.run_id)
    if study is None or study.spec.target != best.target:
        raise StorageError(f"run {best.run_id!r}: its answer is for another target than the run's")


def _as_asked(study: Study) -> Study:
    """Without what changes in a study."""
    began = study.created_at
    return replace(study, status=StudyStatus.RUNNING, conclusion=None, reason="", updated_at=began)


def _set_status(store: Store, status: Status) -> None:
    there = store.study(status.run_id)
    if there is None or Status.of(there) != status:
        store.update_study(
            status.run_id,
            status=status.status,
            conclusion=status.conclusion,
            reason=status.reason,
        )


def _same_best(one: BestConfiguration, other: BestConfiguration) -> bool:
    return bool(encode(as_stored(one)) == encode(as_stored(other)))

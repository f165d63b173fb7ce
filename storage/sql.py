"""The store on SQLite and PostgreSQL."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from typing import TypeVar

from sqlalchemy import Engine, func, insert, select, update
from sqlalchemy.orm import Session

from autotune.errors import FieldError, StorageError, UnreadableError
from autotune.model import (
    BestConfiguration,
    Conclusion,
    Job,
    Phase,
    Study,
    StudyStatus,
    Target,
    Trial,
    encode,
)
from autotune.storage import sql_leases
from autotune.storage.base import OnUnreadable, Store, refuse
from autotune.storage.engine import CHANGED, for_writing, masked, storage_errors
from autotune.storage.lease import Lease, Owner, lost
from autotune.storage.precedence import Answer, may_replace
from autotune.storage.records import (
    by_target,
    describe,
    jobs_in_order,
    oldest_first,
    same_content,
)
from autotune.storage.rows import (
    best_values,
    job_values,
    read_best,
    read_job,
    read_study,
    read_trial,
    study_values,
    trial_values,
    window_values,
)
from autotune.storage.sql_insert import insert_new
from autotune.storage.tables import Base, BestRow, JobRow, StudyRow, TrialRow, WindowRow

Kind = TypeVar("Kind", bound=Base)
Record = TypeVar("Record")


class SqlStore(Store):
    """A store in the database of `engine`, whose tables are up to date: see `open_store`.

    Each process opens a store of its own; database connections don't survive a fork.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writing = for_writing(engine)
        self._name = masked(engine.url)

    def add_study(self, study: Study) -> None:
        with self._session(self._writing) as session:
            if not insert_new(session, StudyRow, study_values(study)):
                there = session.get_one(StudyRow, study.run_id)
                self._check_same(study, same_content(study, read_study(there)))

    def update_study(
        self,
        run_id: str,
        *,
        status: StudyStatus,
        conclusion: Conclusion | None = None,
        reason: str = "",
        holder: str = "",
    ) -> Study:
        state = encode(
            {
                "status": status,
                "conclusion": conclusion,
                "reason": reason,
                "updated_at": datetime.now(UTC),
            }
        )
        with self._writing_about(run_id, holder) as session:
            session.execute(update(StudyRow).where(StudyRow.run_id == run_id).values(state))
            return read_study(self._known(session, run_id))

    def study(self, run_id: str) -> Study | None:
        with self._session(self._engine) as session:
            rows = session.scalars(select(StudyRow).filter_by(run_id=run_id)).all()
            return next(self._readable(rows, read_study, "run_id", refuse), None)

    def studies(self, on_unreadable: OnUnreadable = refuse) -> Sequence[Study]:
        with self._session(self._engine) as session:
            rows = session.scalars(select(StudyRow)).all()
            return oldest_first(self._readable(rows, read_study, "run_id", on_unreadable))

    def add_trial(self, trial: Trial, *, holder: str = "") -> None:
        with self._writing_about(trial.run_id, holder) as session:
            self._known(session, trial.run_id)
            if not insert_new(session, TrialRow, trial_values(trial)):
                (row,), windows = _trial_rows(session, trial.run_id, trial.number)
                there = read_trial(row, windows(row))
                self._check_same(trial, same_content(trial, there))
            elif values := window_values(trial):
                session.execute(insert(WindowRow), values)

    def trials(self, run_id: str, on_unreadable: OnUnreadable = refuse) -> Sequence[Trial]:
        with self._session(self._engine) as session:
            rows, windows = _trial_rows(session, run_id)
            return list(
                self._readable(
                    rows, lambda row: read_trial(row, windows(row)), "number", on_unreadable
                )
            )

    def trial_counts(self) -> Mapping[str, int]:
        with self._session(self._engine) as session:
            counts = select(TrialRow.run_id, func.count()).group_by(TrialRow.run_id)
            return {row[0]: row[1] for row in session.execute(counts)}

    def save_best(self, best: BestConfiguration, *, holder: str = "") -> None:
        with self._writing_about(best.run_id, holder) as session:
            # Of several that save at once each waits for the one before it, and sees its row.
            if insert_new(session, BestRow, best_values(best)):
                return
            same_target = select(BestRow).filter_by(**encode(best.target)).with_for_update()
            row = session.scalars(same_target).one()
            kept = _unless_unreadable(read_best, row)
            if kept is None or may_replace(_answer(session, best), _answer(session, kept)):
                session.execute(
                    update(BestRow).where(BestRow.id == row.id).values(best_values(best))
                )

    def best(self, target: Target) -> BestConfiguration | None:
        with self._session(self._engine) as session:
            rows = session.scalars(select(BestRow).filter_by(**encode(target))).all()
            return next(self._readable(rows, read_best, "workload", refuse), None)

    def bests(self, on_unreadable: OnUnreadable = refuse) -> Sequence[BestConfiguration]:
        with self._session(self._engine) as session:
            rows = session.scalars(select(BestRow)).all()
            return by_target(self._readable(rows, read_best, "workload", on_unreadable))

    def take_lease(
        self, run_id: str, owner: Owner, seconds: float, *, instead_of: str = ""
    ) -> Lease:
        with self._session(self._writing) as session:
            self._known(session, run_id)
            return sql_leases.take(session, run_id, owner, seconds, instead_of)

    def renew_lease(self, run_id: str, token: str, seconds: float) -> bool:
        with self._session(self._writing) as session:
            return sql_leases.renew(session, run_id, token, seconds)

    def release_lease(self, run_id: str, token: str) -> None:
        with self._session(self._writing) as session:
            sql_leases.release(session, run_id, token)

    def leases(self, on_unreadable: OnUnreadable = refuse) -> Mapping[str, Lease]:
        with self._session(self._engine) as session:
            rows, read = sql_leases.reading(session)
            leases = self._readable(rows, read, "run_id", on_unreadable)
            return {lease.run_id: lease for lease in leases}

    def add_job(self, job: Job) -> None:
        with self._session(self._writing) as session:
            if not insert_new(session, JobRow, job_values(job)):
                there = read_job(session.get_one(JobRow, job.name))
                self._check_same(job, same_content(job, there))

    def jobs(self, on_unreadable: OnUnreadable = refuse) -> Sequence[Job]:
        with self._session(self._engine) as session:
            rows = session.scalars(select(JobRow)).all()
            return jobs_in_order(self._readable(rows, read_job, "run_id", on_unreadable))

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _session(self, engine: Engine) -> Iterator[Session]:
        """One transaction, committed at the end."""
        with storage_errors(self._name), Session(engine) as session, session.begin():
            yield session

    @contextmanager
    def _writing_about(self, run_id: str, holder: str) -> Iterator[Session]:
        """A transaction in which the run's lease is and stays `holder`'s, if one is given."""
        with self._session(self._writing) as session:
            if holder and not sql_leases.is_held(session, run_id, holder):
                raise lost(self._name, run_id)
            yield session

    def _readable(
        self,
        rows: Iterable[Kind | None],
        read: Callable[[Kind], Record],
        key: str,
        on_unreadable: OnUnreadable,
    ) -> Iterator[Record]:
        for row in rows:
            try:
                # A row without its key comes as None.
                yield read(_known_row(row))
            except FieldError as error:
                name = str(getattr(row, key, ""))
                on_unreadable(UnreadableError(f"{self._name}: {error}", key=name, hint=CHANGED))

    def _known(self, session: Session, run_id: str) -> StudyRow:
        row = session.get(StudyRow, run_id)
        if row is None:
            raise StorageError(f"{self._name}: there is no run {run_id!r}")
        return row

    def _check_same(self, record: Study | Trial | Job, same: bool) -> None:
        if not same:
            raise StorageError(
                f"{self._name}: {describe(record)} is there already, with other content"
            )


def _known_row(row: Kind | None) -> Kind:
    if row is None:
        raise FieldError("key", None, "is missing in a row")
    return row


def _answer(session: Session, best: BestConfiguration) -> Answer:
    row = session.get(StudyRow, best.run_id)
    study = None if row is None else _unless_unreadable(read_study, row)
    searched = select(func.count()).where(
        TrialRow.run_id == best.run_id, TrialRow.phase == Phase.SEARCH.value
    )
    return Answer(
        best=best,
        spec=study.spec if study else None,
        tried=session.scalar(searched) or 0,
    )


def _unless_unreadable(read: Callable[[Kind], Record], row: Kind) -> Record | None:
    try:
        return read(row)
    except FieldError:
        return None


def _trial_rows(
    session: Session, run_id: str, number: int | None = None
) -> tuple[Sequence[TrialRow], Callable[[TrialRow], Sequence[WindowRow]]]:
    """A study's trials by number, or only the one with `number`; and what gives their windows."""
    key = {"run_id": run_id} if number is None else {"run_id": run_id, "number": number}
    rows = session.scalars(select(TrialRow).filter_by(**key).order_by(TrialRow.number)).all()
    windows = session.scalars(
        select(WindowRow).filter_by(**key).order_by(WindowRow.number, WindowRow.position)
    )
    of_trial = {n: list(group) for n, group in groupby(windows, lambda window: window.number)}
    return rows, lambda row: of_trial.get(row.number, ())

"""The store on SQLite and PostgreSQL."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby

from sqlalchemy import Engine, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from autotune.errors import StorageError
from autotune.model import (
    BestConfiguration,
    Conclusion,
    Phase,
    Study,
    StudyStatus,
    Target,
    Trial,
    encode,
)
from autotune.storage.base import Store
from autotune.storage.engine import for_writing, masked, storage_errors
from autotune.storage.precedence import Answer, may_replace
from autotune.storage.records import by_target, describe, oldest_first, same_content
from autotune.storage.rows import (
    Row,
    best_values,
    read_best,
    read_study,
    read_trial,
    study_values,
    trial_values,
    window_values,
)
from autotune.storage.tables import Base, BestRow, StudyRow, TrialRow, WindowRow


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
            if not self._insert(session, StudyRow, study_values(study)):
                there = session.get_one(StudyRow, study.run_id)
                self._check_same(study, same_content(study, read_study(there)))

    def update_study(
        self,
        run_id: str,
        *,
        status: StudyStatus,
        conclusion: Conclusion | None = None,
        reason: str = "",
    ) -> Study:
        state = encode(
            {
                "status": status,
                "conclusion": conclusion,
                "reason": reason,
                "updated_at": datetime.now(UTC),
            }
        )
        with self._session(self._writing) as session:
            session.execute(update(StudyRow).where(StudyRow.run_id == run_id).values(state))
            return read_study(self._known(session, run_id))

    def study(self, run_id: str) -> Study | None:
        with self._session(self._engine) as session:
            row = session.get(StudyRow, run_id)
            return None if row is None else read_study(row)

    def studies(self) -> Sequence[Study]:
        with self._session(self._engine) as session:
            return oldest_first(read_study(row) for row in session.scalars(select(StudyRow)))

    def add_trial(self, trial: Trial) -> None:
        with self._session(self._writing) as session:
            self._known(session, trial.run_id)
            if not self._insert(session, TrialRow, trial_values(trial)):
                (there,) = _read_trials(session, trial.run_id, trial.number)
                self._check_same(trial, same_content(trial, there))
            elif windows := window_values(trial):
                session.execute(insert(WindowRow), windows)

    def trials(self, run_id: str) -> Sequence[Trial]:
        with self._session(self._engine) as session:
            return _read_trials(session, run_id)

    def save_best(self, best: BestConfiguration) -> None:
        with self._session(self._writing) as session:
            # Of several that save at once each waits for the one before it, and sees its row.
            if self._insert(session, BestRow, best_values(best)):
                return
            same_target = select(BestRow).filter_by(**encode(best.target)).with_for_update()
            row = session.scalars(same_target).one()
            if may_replace(_answer(session, best), _answer(session, read_best(row))):
                session.execute(
                    update(BestRow).where(BestRow.id == row.id).values(best_values(best))
                )

    def best(self, target: Target) -> BestConfiguration | None:
        with self._session(self._engine) as session:
            row = session.scalars(select(BestRow).filter_by(**encode(target))).one_or_none()
            return None if row is None else read_best(row)

    def bests(self) -> Sequence[BestConfiguration]:
        with self._session(self._engine) as session:
            return by_target(read_best(row) for row in session.scalars(select(BestRow)))

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _session(self, engine: Engine) -> Iterator[Session]:
        """One transaction, committed at the end."""
        with storage_errors(self._name), Session(engine) as session, session.begin():
            yield session

    def _upsert(self, table: type[Base]) -> postgresql.Insert | sqlite.Insert:
        if self._engine.dialect.name == "postgresql":
            return postgresql.insert(table)
        return sqlite.insert(table)

    def _insert(self, session: Session, table: type[Base], values: Row) -> bool:
        """Whether there was no such row; one being inserted elsewhere is waited for."""
        statement = self._upsert(table).values(values).on_conflict_do_nothing()
        # On the connection and with the option: else the number is unknown on some databases.
        result = session.connection().execute(
            statement, execution_options={"preserve_rowcount": True}
        )
        return result.rowcount == 1

    def _known(self, session: Session, run_id: str) -> StudyRow:
        row = session.get(StudyRow, run_id)
        if row is None:
            raise StorageError(f"{self._name}: there is no run {run_id!r}")
        return row

    def _check_same(self, record: Study | Trial, same: bool) -> None:
        if not same:
            raise StorageError(
                f"{self._name}: {describe(record)} is there already, with other content"
            )


def _answer(session: Session, best: BestConfiguration) -> Answer:
    study = session.get(StudyRow, best.run_id)
    searched = select(func.count()).where(
        TrialRow.run_id == best.run_id, TrialRow.phase == Phase.SEARCH.value
    )
    return Answer(
        best=best,
        spec=None if study is None else read_study(study).spec,
        tried=session.scalar(searched) or 0,
    )


def _read_trials(session: Session, run_id: str, number: int | None = None) -> list[Trial]:
    """A study's trials by number, or only the one with `number`."""
    key = {"run_id": run_id} if number is None else {"run_id": run_id, "number": number}
    rows = session.scalars(select(TrialRow).filter_by(**key).order_by(TrialRow.number)).all()
    windows = session.scalars(
        select(WindowRow).filter_by(**key).order_by(WindowRow.number, WindowRow.position)
    )
    of_trial = {n: list(group) for n, group in groupby(windows, lambda window: window.number)}
    return [read_trial(row, of_trial.get(row.number, ())) for row in rows]

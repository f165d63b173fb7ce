"""Leases in a database, by a clock that no controller sets. Each function is in a transaction."""

from collections.abc import Callable, Sequence

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from autotune.storage.lease import Lease, Owner, machine_clock
from autotune.storage.rows import Row, lease_values, read_lease
from autotune.storage.sql_insert import insert_new
from autotune.storage.tables import LeaseRow

SERVER_CLOCK = "server"
"""What PostgreSQL's time of day is called in leases."""


def take(session: Session, run_id: str, owner: Owner, seconds: float, instead_of: str) -> Lease:
    """Give the lease to `owner` if it is free; the one that then stands."""
    clock, now_s = _clock(session)
    values = lease_values(run_id, owner, clock, now_s + seconds)
    while not insert_new(session, LeaseRow, values):
        of_run = select(LeaseRow).filter_by(run_id=run_id).with_for_update()
        row = session.scalars(of_run).one_or_none()
        if row is not None:
            there = read_lease(row, clock, now_s)
            if row.token not in (owner.token, instead_of) and there.left_s > 0:
                return there
            session.execute(update(LeaseRow).filter_by(run_id=run_id).values(values))
            break
        # Let go of between the two: it is free.
    return Lease(run_id=run_id, owner=owner, left_s=seconds)


def renew(session: Session, run_id: str, token: str, seconds: float) -> bool:
    """Have it end in `seconds`: whether it is `token`'s."""
    clock, now_s = _clock(session)
    own = update(LeaseRow).filter_by(run_id=run_id, token=token)
    values: Row = {"clock": clock, "ends_s": now_s + seconds}
    return session.connection().execute(own.values(values)).rowcount == 1


def release(session: Session, run_id: str, token: str) -> None:
    """Let go of it if it is `token`'s."""
    session.execute(delete(LeaseRow).filter_by(run_id=run_id, token=token))


def is_held(session: Session, run_id: str, token: str) -> bool:
    """Whether it is `token`'s, and stays so until this transaction has ended."""
    of_run = select(LeaseRow.token).filter_by(run_id=run_id).with_for_update(read=True)
    return session.scalar(of_run) == token


def reading(session: Session) -> tuple[Sequence[LeaseRow], Callable[[LeaseRow], Lease]]:
    """All of them, and what reads one."""
    clock, now_s = _clock(session)
    rows = session.scalars(select(LeaseRow)).all()
    return rows, lambda row: read_lease(row, clock, now_s)


def _clock(session: Session) -> tuple[str, float]:
    """The clock that leases end by: its name, and what it shows."""
    if session.get_bind().dialect.name == "postgresql":
        now = session.scalar(select(func.extract("epoch", func.clock_timestamp())))
        return SERVER_CLOCK, float(now or 0)
    # SQLite's write-ahead log is shared memory, so all who use the file are on this machine.
    return machine_clock()

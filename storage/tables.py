"""The tables. What is asked for has a column of its own; the structured rest is JSON.

Attributes hold encoded values (see the codec); `rows` turns them into records and back. A change
here needs a revision in `migrations/versions`.
"""

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, MetaData, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from autotune.model.codec import Json
from autotune.storage.columns import Document, Number, Timestamp

TARGET = ("instance", "nodes", "ranks_per_node", "workload", "global_batch")


class Base(DeclarativeBase):
    """Names its constraints, so that later migrations can refer to them on every database."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(referred_table_name)s",
            "uq": "uq_%(table_name)s",
        }
    )


class TargetColumns:
    """The fields of a Target."""

    instance: Mapped[str]
    nodes: Mapped[int]
    ranks_per_node: Mapped[int]
    workload: Mapped[str]
    global_batch: Mapped[int] = mapped_column(BigInteger)


class StudyRow(TargetColumns, Base):
    """A Study; `spec` is its StudySpec without the target."""

    __tablename__ = "studies"

    run_id: Mapped[str] = mapped_column(primary_key=True)
    status: Mapped[str]
    conclusion: Mapped[str | None]
    reason: Mapped[Json] = mapped_column(Document)
    created_at: Mapped[Json] = mapped_column(Timestamp)
    updated_at: Mapped[Json] = mapped_column(Timestamp)
    spec: Mapped[Json] = mapped_column(Document)
    machine: Mapped[Json] = mapped_column(Document)


class TrialRow(Base):
    """A Trial; `measurement` is without its windows."""

    __tablename__ = "trials"

    run_id: Mapped[str] = mapped_column(ForeignKey(StudyRow.run_id), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    phase: Mapped[str]
    outcome: Mapped[str]
    failed_rank: Mapped[int | None]
    started_at: Mapped[Json] = mapped_column(Timestamp)
    seconds: Mapped[Json] = mapped_column(Number)
    reason: Mapped[Json] = mapped_column(Document)
    candidate: Mapped[Json] = mapped_column(Document)
    settings: Mapped[Json] = mapped_column(Document)
    environment: Mapped[Json] = mapped_column(Document)
    measurement: Mapped[Json] = mapped_column(Document, nullable=True)
    log_path: Mapped[Json] = mapped_column(Document)
    log_tail: Mapped[Json] = mapped_column(Document)
    left_behind: Mapped[Json] = mapped_column(Document, nullable=True)
    """NULL in trials of before there was this column."""


class WindowRow(Base):
    """A raw Window of a trial's measurement; `position` is its place there, from 0."""

    __tablename__ = "windows"
    __table_args__ = (
        ForeignKeyConstraint(["run_id", "number"], [TrialRow.run_id, TrialRow.number]),
    )

    run_id: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    index: Mapped[int]
    steps: Mapped[int] = mapped_column(BigInteger)
    samples: Mapped[int] = mapped_column(BigInteger)
    seconds: Mapped[Json] = mapped_column(Number)


class LeaseRow(Base):
    """A run's Lease; it ends when the clock named `clock` shows `ends_s`."""

    __tablename__ = "leases"

    run_id: Mapped[str] = mapped_column(ForeignKey(StudyRow.run_id), primary_key=True)
    token: Mapped[str]
    owner: Mapped[Json] = mapped_column(Document)
    clock: Mapped[str]
    ends_s: Mapped[Json] = mapped_column(Number)


class JobRow(Base):
    """A Job. Its study may be unknown as yet: `run_id` refers to nothing."""

    __tablename__ = "jobs"

    name: Mapped[str] = mapped_column(primary_key=True)
    run_id: Mapped[str]
    submitted_at: Mapped[Json] = mapped_column(Timestamp)
    job: Mapped[Json] = mapped_column(Document)
    """What else is known of it."""


class BestRow(TargetColumns, Base):
    """A BestConfiguration, one for each target."""

    __tablename__ = "best_configurations"
    __table_args__ = (UniqueConstraint(*TARGET),)

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[str]
    conclusion: Mapped[str]
    created_at: Mapped[Json] = mapped_column(Timestamp)
    settings: Mapped[Json] = mapped_column(Document)
    environment: Mapped[Json] = mapped_column(Document)
    evidence: Mapped[Json] = mapped_column(Document)
    versions: Mapped[Json] = mapped_column(Document)

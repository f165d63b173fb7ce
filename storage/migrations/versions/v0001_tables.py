"""The first tables. Types are spelled out: a revision never changes with the code."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

DOCUMENT = sa.Text().with_variant(sa.JSON(), "postgresql")
TIMESTAMP = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Create studies, trials, windows and best_configurations."""
    op.create_table(
        "studies",
        *_target(),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("conclusion", sa.String(), nullable=True),
        sa.Column("reason", DOCUMENT, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        sa.Column("spec", DOCUMENT, nullable=False),
        sa.Column("machine", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_studies"),
    )
    op.create_table(
        "trials",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("failed_rank", sa.Integer(), nullable=True),
        sa.Column("started_at", TIMESTAMP, nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("reason", DOCUMENT, nullable=False),
        sa.Column("candidate", DOCUMENT, nullable=False),
        sa.Column("settings", DOCUMENT, nullable=False),
        sa.Column("environment", DOCUMENT, nullable=False),
        sa.Column("measurement", DOCUMENT, nullable=True),
        sa.Column("log_path", DOCUMENT, nullable=False),
        sa.Column("log_tail", DOCUMENT, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["studies.run_id"], name="fk_trials_studies"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_trials"),
    )
    op.create_table(
        "windows",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "number"], ["trials.run_id", "trials.number"], name="fk_windows_trials"
        ),
        sa.PrimaryKeyConstraint("run_id", "number", "position", name="pk_windows"),
    )
    op.create_table(
        "best_configurations",
        *_target(),
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("conclusion", sa.String(), nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("settings", DOCUMENT, nullable=False),
        sa.Column("environment", DOCUMENT, nullable=False),
        sa.Column("evidence", DOCUMENT, nullable=False),
        sa.Column("versions", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_best_configurations"),
        sa.UniqueConstraint(
            "instance", "nodes", "ranks_per_node", "workload", "global_batch",
            name="uq_best_configurations",
        ),
    )  # fmt: skip


def _target() -> list[sa.Column[object]]:
    return [
        sa.Column("instance", sa.String(), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.Column("ranks_per_node", sa.Integer(), nullable=False),
        sa.Column("workload", sa.String(), nullable=False),
        sa.Column("global_batch", sa.BigInteger(), nullable=False),
    ]

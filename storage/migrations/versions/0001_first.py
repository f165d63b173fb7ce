"""The first schema: studies, trials, windows, best configurations.

A revision says what was, so it repeats the columns and doesn't import the tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _time() -> sa.DateTime:
    return sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "studies",
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("conclusion", sa.String(32)),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("created_at", _time(), nullable=False),
        sa.Column("updated_at", _time(), nullable=False),
        sa.Column("instance", sa.String(255), nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("machine", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_studies"),
    )
    op.create_index("ix_studies_created_at", "studies", ["created_at"])
    op.create_index("ix_studies_instance", "studies", ["instance"])
    op.create_table(
        "trials",
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("phase", sa.String(32), nullable=False),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("failed_rank", sa.Integer),
        sa.Column("started_at", _time(), nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("candidate", sa.JSON, nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("environment", sa.JSON, nullable=False),
        sa.Column("log_path", sa.Text, nullable=False),
        sa.Column("log_tail", sa.Text, nullable=False),
        sa.Column("measurement", sa.JSON),
        sa.Column("effective", sa.JSON),
        sa.Column("versions", sa.JSON),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_trials"),
        sa.ForeignKeyConstraint(["run_id"], ["studies.run_id"], name="fk_trials_studies"),
    )
    op.create_index("ix_trials_outcome", "trials", ["outcome"])
    op.create_table(
        "windows",
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("position", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("index", sa.Integer, nullable=False),
        sa.Column("steps", sa.Integer, nullable=False),
        sa.Column("samples", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "number", "position", name="pk_windows"),
        sa.ForeignKeyConstraint(
            ["run_id", "number"], ["trials.run_id", "trials.number"], name="fk_windows_trials"
        ),
    )
    op.create_table(
        "best_configurations",
        sa.Column("instance", sa.String(255), nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("ranks_per_node", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("workload", sa.String(255), nullable=False),
        sa.Column("global_batch", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("conclusion", sa.String(32), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("created_at", _time(), nullable=False),
        sa.Column("content", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint(
            "instance",
            "nodes",
            "ranks_per_node",
            "workload",
            "global_batch",
            name="pk_best_configurations",
        ),
    )


def downgrade() -> None:
    """Never: results aren't thrown away."""
    raise NotImplementedError("a schema is only ever upgraded")

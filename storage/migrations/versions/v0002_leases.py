"""Who works on a run, and what trials have left behind."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

DOCUMENT = sa.Text().with_variant(sa.JSON(), "postgresql")


def upgrade() -> None:
    """Create leases and trials.left_behind.

    Runs of before have no lease: nobody works on them. What their trials left, nobody knows.
    """
    op.create_table(
        "leases",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("owner", DOCUMENT, nullable=False),
        sa.Column("clock", sa.String(), nullable=False),
        sa.Column("ends_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["studies.run_id"], name="fk_leases_studies"),
        sa.PrimaryKeyConstraint("run_id", name="pk_leases"),
    )
    op.add_column("trials", sa.Column("left_behind", DOCUMENT, nullable=True))

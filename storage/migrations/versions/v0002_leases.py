"""Who works on a run."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

DOCUMENT = sa.Text().with_variant(sa.JSON(), "postgresql")


def upgrade() -> None:
    """Create leases. Runs of before have none: nobody works on them."""
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

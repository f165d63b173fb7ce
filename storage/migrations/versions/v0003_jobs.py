"""Jobs that run studies elsewhere."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

DOCUMENT = sa.Text().with_variant(sa.JSON(), "postgresql")
TIMESTAMP = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Create jobs."""
    op.create_table(
        "jobs",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("submitted_at", TIMESTAMP, nullable=False),
        sa.Column("job", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_jobs"),
    )

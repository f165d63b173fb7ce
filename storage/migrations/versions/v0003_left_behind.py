"""What trials have left behind."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

DOCUMENT = sa.Text().with_variant(sa.JSON(), "postgresql")


def upgrade() -> None:
    """Add trials.left_behind; of trials of before nobody knows."""
    op.add_column("trials", sa.Column("left_behind", DOCUMENT, nullable=True))

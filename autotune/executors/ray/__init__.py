"""Trials on a Ray cluster. Imported only where it is asked for: Ray is the extra `ray`."""

import os

from autotune.errors import UserError

# Before Ray is imported: what its workers print belongs into its own log files.
os.environ.setdefault("RAY_LOG_TO_DRIVER", "0")
# A lane that is still at work when the connection is closed must not open another one.
os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")

try:
    import ray  # noqa: F401
except ImportError:
    raise UserError(
        "--executor ray needs Ray, which isn't installed",
        hint="pip install 'autotune-train[ray]'",
    ) from None

"""Imports everything that a rank needs, for a parent that forks ranks.

No CUDA call is made and no thread started: both would break the forked ranks.
"""

import importlib

MODULES = (
    "autotune.trainers.rank",
    # The first optimizer imports it, which takes a second.
    "torch._dynamo",
)


def preload() -> None:
    """Import the modules, once."""
    for name in MODULES:
        importlib.import_module(name)

"""Where studies, trials and best configurations are kept.

Importing this is cheap: SQLAlchemy, which takes longer to import than most commands take to run,
comes with the first use of `open_store` or `SqlStore`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from autotune.storage.base import Store
from autotune.storage.folder import data_folder, default_url
from autotune.storage.memory import MemoryStore

if TYPE_CHECKING:
    from autotune.storage.location import open_store
    from autotune.storage.sql import SqlStore

__all__ = [
    "MemoryStore",
    "SqlStore",
    "Store",
    "data_folder",
    "default_url",
    "open_store",
]

_LATE = {
    "open_store": "autotune.storage.location",
    "SqlStore": "autotune.storage.sql",
}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)

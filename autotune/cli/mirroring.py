"""What `--mirror` does to `autotune run` and `resume`: the store they open."""

from autotune.cli.progress import Progress
from autotune.compose import find_study
from autotune.errors import FieldError
from autotune.model import Study
from autotune.storage import Store, default_url, open_store
from autotune.storage.mirrored import MirroredStore
from autotune.storage.objects import open_objects


def open_run_store(storage: str | None, mirror: str | None) -> Store:
    """The store that `storage` names, mirrored if a mirror is named.

    Raises as `open_store` and `open_objects`.
    """
    objects = open_objects(mirror) if mirror else None
    store = open_store(storage or default_url())
    return store if objects is None else MirroredStore(store, objects, Progress().say)


def study_to_resume(store: Store, run: str) -> Study:
    """As `find_study`, with what a mirror has of the run and the store has not."""
    if not isinstance(store, MirroredStore):
        return find_study(store, run)
    try:
        run_id = find_study(store, run).run_id
    except FieldError:
        # Another machine's store may have had it.
        if not store.restore(run):
            raise
        return find_study(store, run)
    store.restore(run_id)
    return find_study(store, run_id)

"""What `--mirror` does to `autotune run` and `resume`: the store they open."""

from functools import partial

from autotune.cli.progress import Progress
from autotune.compose import find_study
from autotune.errors import FieldError, UserError
from autotune.model import Study
from autotune.storage import Store, default_url, open_store
from autotune.storage.mirrored import MirroredStore
from autotune.storage.objects import OPTION, open_objects


def open_run_store(storage: str | None, mirror: str | None) -> Store:
    """The store that `storage` names, mirrored if a mirror is named.

    Raises as `open_store` and `open_objects`.
    """
    objects = open_objects(mirror) if mirror else None
    store = open_store(storage or default_url())
    return store if objects is None else MirroredStore(store, objects, Progress().say)


def study_to_resume(store: Store, run: str, *, trusted: bool) -> Study:
    """As `find_study`, with what a mirror has of the run and the store has not.

    A run that only the mirror knows doesn't decide which code is started, unless it is `trusted`.
    """
    if not isinstance(store, MirroredStore):
        return find_study(store, run)
    # Another machine's store may have had it: its whole name goes before the beginning of ours.
    if store.study(run) is None and store.restore(run, partial(_check_code, trusted=trusted)):
        return find_study(store, run)
    run_id = _known_here(store, run)
    store.restore(run_id)
    return find_study(store, run_id)


def _known_here(store: Store, run: str) -> str:
    """The whole name of a run that the store has."""
    try:
        return find_study(store, run).run_id
    except FieldError as error:
        hint = f"what only the mirror has goes by its whole name: autotune resume RUN {OPTION} …"
        raise UserError(str(error), hint=error.hint or hint) from None


def _check_code(study: Study, *, trusted: bool) -> None:
    """Raise UserError for a study that would have code started that nobody here named."""
    own = study.spec.own_workload
    if own is None or trusted:
        return
    what = own.script.command(own.script.arguments) if own.script else study.spec.target.workload
    raise UserError(
        f"run {study.run_id}: comes from the mirror, and names code to start: {what}",
        hint="if that is yours: --trust-script",
    )

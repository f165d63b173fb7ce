"""Where an answer is written to, and what stays there."""

import re
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters.document import read, to_yaml
from autotune.exporters.files import check_writable, write_atomically
from autotune.model import BestConfiguration, Conclusion, Study, Target
from autotune.storage import Store


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What became of an answer."""

    path: Path | None = None
    """The file that was written."""
    kept: str | None = None
    """The run whose earlier answer stays the one for the target."""


def output_of(study: Study) -> Path:
    """The file for the study's answer."""
    return Path(study.spec.output) if study.spec.output else default_output(study.spec.target)


def check_output(study: Study) -> None:
    """Raises UserError if a resumed study can't save its answer.

    Also if the file holds something else: a database may name any file.
    """
    path = output_of(study)
    check_writable(path)
    if not path.exists():
        return
    try:
        read(path)
    except UserError as error:
        raise UserError(
            f"run {study.run_id} saves its answer in {str(path)!r}, which holds something else: "
            f"{error}",
            hint="move that file away",
        ) from None


def default_output(target: Target) -> Path:
    """Where the YAML for `target` is saved when the user names no file."""
    # Neither may lead out of the folder: a database, or a mirror, may name anything.
    instance, workload = (
        re.sub(r"[^\w.-]+", "-", name) for name in (target.instance, target.workload)
    )
    return Path("best") / (
        f"{instance}-{workload}-n{target.nodes}x{target.ranks_per_node}-b{target.global_batch}.yaml"
    )


def save_file(study: Study, store: Store, own: BestConfiguration | None) -> Saved:
    """Write the answer: a file that the user named gets `own`, the default one the target's.

    An unconfirmed answer never takes the place of a confirmed one in a file, either.
    """
    kept = store.best(study.spec.target)
    if kept is None or own is None:
        return Saved()
    best = own if study.spec.output else kept
    path = output_of(study)
    if best.conclusion is Conclusion.UNCONFIRMED and _holds_confirmed(path):
        path = path.with_name(f"{path.stem}.unconfirmed{path.suffix}")
    write_atomically(path, to_yaml(best))
    return Saved(path=path, kept=None if kept.run_id == study.run_id else kept.run_id)


def _holds_confirmed(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        return read(path).conclusion is not Conclusion.UNCONFIRMED
    except UserError:
        # Somebody's file of another kind: not ours to replace by a guess.
        return True

"""What `autotune run … -- SCRIPT` does before its study: look at the script, or show commands."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Event

import typer

from autotune.cli.interrupts import interruptible
from autotune.cli.venue import Venue
from autotune.errors import FieldError, UserError
from autotune.executors.own_folder import OwnFolder
from autotune.machines import Place
from autotune.model import Candidate, Script
from autotune.request import Request, build_space, build_target
from autotune.space.space import Space
from autotune.user_script import check_told, probe, read_script

EXIT_INTERRUPTED = 130
_MOST_SHOWN = 40
_MOST_LOOKED_AT = 20_000


def with_script(request: Request, words: Sequence[str], samples: int | None) -> Request:
    """`request` for the script in `words`, of which nothing but its text is known yet.

    Raises UserError for what is no script, or leaves open what its arguments need.
    """
    if request.workload != Request.workload:
        raise FieldError("--workload", request.workload, "doesn't go with a script")
    if samples is not None and request.global_batch not in (None, samples):
        raise FieldError(
            "--samples-per-step", samples, f"contradicts --global-batch {request.global_batch}"
        )
    workload = read_script(words, samples)
    if workload.script is not None:
        check_told(workload.script, _given(request, samples))
    return replace(request, own_workload=workload)


def started_once(
    request: Request, where: Venue, samples: int | None, *, share_machine: bool
) -> Request:
    """`request` with what running its script for some steps has shown, where its trials will run.

    Raises UserError.
    """
    workload = request.own_workload
    if workload is None or workload.script is None:
        return request
    space = _space(request, where.place)
    baseline, cancel = space.baseline(), Event()
    with (
        where.using(share=share_machine),
        _probe_folder() as folder,
        interruptible(lambda text: typer.echo(text, err=True), cancel),
        where.executor(workload) as executor,
    ):
        known = probe(
            workload, workload.script,
            settings=space.settings(baseline), environment=space.environment(baseline),
            executor=executor, nodes=space.facts.nodes, ranks_per_node=space.facts.ranks_per_node,
            given=_given(request, samples), counts=samples is None, folder=folder, cancel=cancel,
        )  # fmt: skip
    if cancel.is_set():
        raise typer.Exit(EXIT_INTERRUPTED)
    return replace(request, own_workload=known)


@contextmanager
def _probe_folder() -> Iterator[Path]:
    """Kept if the script failed: the log is in there, and its path is told."""
    with OwnFolder("script-") as folder:
        try:
            yield folder.path
        except UserError:
            folder.keep()
            raise


def print_commands(request: Request, place: Place, samples: int | None) -> None:
    """The exact commands that trials stand for: the baseline's, then one for each single change."""
    script = request.own_workload.script if request.own_workload else None
    if script is None:
        raise FieldError(
            "--dry-run", True, "shows the commands of a script, and none is given",
            hint="autotune knobs shows what is searched for a workload",
        )  # fmt: skip
    if _given(request, samples) is None and "accumulation_steps" in script.told:
        raise FieldError(
            "--dry-run", True, "needs --global-batch, by which {accumulation_steps} are found"
        )
    space = _space(request, place)
    baseline = space.baseline()
    sys.stdout.write(f"{_command(space, script, baseline)}\n")
    for candidate in islice(_single_changes(space, baseline), _MOST_SHOWN):
        changed = ", ".join(f"{k}={v}" for k, v in candidate.differences(baseline).items())
        sys.stdout.write(f"# {changed}\n{_command(space, script, candidate)}\n")


def _given(request: Request, samples: int | None) -> int | None:
    return request.global_batch if samples is None else samples


def _space(request: Request, place: Place) -> Space:
    """With a batch of one sample a rank where none is known: no argument depends on it then."""
    target = build_target(with_batch(request, place), place.machine)
    return build_space(with_batch(request, place), place, target)


def with_batch(request: Request, place: Place) -> Request:
    """`request`, with one sample a rank if its batch isn't known yet."""
    workload = request.own_workload
    if request.global_batch is not None or (workload and workload.global_batch is not None):
        return request
    once = build_target(replace(request, global_batch=1), place.machine)
    return replace(request, global_batch=once.ranks)


def _single_changes(space: Space, baseline: Candidate) -> list[Candidate]:
    """The candidates that differ from the baseline in one knob that is searched."""
    found = []
    free = [knob.name for knob in space.knobs if space.is_searched(knob)]
    for candidate in islice(space.candidates(), _MOST_LOOKED_AT):
        if len([n for n in free if candidate.get(n) != baseline.get(n) and n in baseline]) == 1:
            found.append(candidate)
    return found


def _command(space: Space, script: Script, candidate: Candidate) -> str:
    settings, ranks = space.settings(candidate), space.facts.ranks
    environment = space.environment(candidate).items()
    variables = [f"{name}={shlex.quote(value)}" for name, value in environment]
    nodes = f"--nnodes {space.facts.nodes}" if space.facts.nodes > 1 else "--standalone"
    launcher = f"torchrun {nodes} --nproc-per-node {space.facts.ranks_per_node}"
    return " ".join([*variables, launcher, script.command(script.rendered(settings, ranks))])

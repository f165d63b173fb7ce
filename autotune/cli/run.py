"""`autotune run` and `resume`: run a study and print its answer."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Annotated

import typer

from autotune.cli.options import (
    BatchOption,
    ColdOption,
    Format,
    FormatOption,
    InstanceOption,
    InstancesOption,
    LossyOption,
    NoImdsOption,
    NprocOption,
    OnlyOption,
    OutputOption,
    SetOption,
    SpaceOption,
    StorageOption,
    StrategyOption,
    WorkloadOption,
    assignments,
    duration_s,
    names,
)
from autotune.cli.progress import Progress
from autotune.cli.report import print_answer
from autotune.compose import build_spec, find_study, new_study, runner
from autotune.errors import FieldError, UserError
from autotune.exporters.document import read, to_yaml
from autotune.exporters.files import check_writable, write_atomically
from autotune.loop.study import StudyEnd
from autotune.machines import Place, find_place
from autotune.model import Conclusion, Study, StudySpec, StudyStatus, Target
from autotune.request import Request, Spaces, all_notices, build_space, build_target
from autotune.run_lock import run_lock
from autotune.storage import Store, default_url, open_store
from autotune.yaml_reader import read_yaml

EXIT_STUCK = 1
EXIT_NO_CANDIDATE = 3
EXIT_INTERRUPTED = 130


def run(
    instance: InstanceOption,
    workload: WorkloadOption = "tiny",
    nproc: NprocOption = None,
    global_batch: BatchOption = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="DURATION",
            help="Wall time for the whole study, such as 90s, 30m or 2h. "
            "Default: 10m, or none with --trials.",
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials",
            min=1,
            help="Candidates to try in the search; the baseline and the confirmation of the "
            "finalists come on top.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option("--seed", min=0, max=2**32 - 1, help="Of the search, the model and the data."),
    ] = 0,
    storage: StorageOption = None,
    output: OutputOption = None,
    format_: FormatOption = Format.TABLE,
    set_: SetOption = None,
    only: OnlyOption = None,
    space: SpaceOption = "default",
    strategy: StrategyOption = StudySpec.search,
    allow_lossy: LossyOption = False,
    instances: InstancesOption = None,
    no_imds: NoImdsOption = False,
    cold: ColdOption = False,
) -> None:
    """Find the fastest steady configuration, and save it as YAML.

    Exit codes: 0 done (improved or keep-defaults: the output tells), 2 usage, 3 no candidate works,
    130 interrupted (resume with 'autotune resume').
    """
    request = Request(
        instance=instance,
        workload=workload,
        nproc=nproc,
        global_batch=global_batch,
        budget_s=None if budget is None else duration_s(budget, "--budget"),
        max_trials=trials,
        seed=seed,
        strategy=strategy,
        pinned=assignments(set_ or [], "--set"),
        only=names(only, "--only"),
        space=Spaces.of(space),
        instances=instances,
        allow_lossy=allow_lossy,
        output=output,
    )
    place = find_place(instance, instances=request.instance_sources, ask_ec2=not no_imds)
    target = build_target(request, place.machine)
    built = build_space(request, place, target)
    spec = build_spec(request, target, built)
    check_writable(output or default_output(target))
    with open_store(storage or default_url()) as store:
        study = new_study(spec, place.machine, store)
        notices = all_notices(request, built)
        _run_and_report(study, place, store, storage, format_, notices, cold=cold)


def resume(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run id, the beginning of one, or 'latest'."),
    ],
    storage: StorageOption = None,
    format_: FormatOption = Format.TABLE,
    cold: ColdOption = False,
) -> None:
    """Finish a run that was interrupted or killed; finished trials are kept."""
    with open_store(storage or default_url()) as store:
        study = find_study(store, run)
        if study.status is StudyStatus.FINISHED:
            raise FieldError(
                "RUN",
                study.run_id,
                "has finished: there is nothing to resume",
                hint=f"see what it found with: autotune show {study.run_id}",
            )
        target = study.spec.target
        check_writable(_output(study))
        text = study.spec.instances_text
        sources = [read_yaml(text, f"instances of run {study.run_id}")] if text else []
        place = find_place(target.instance, instances=sources)
        _run_and_report(study, place, store, storage, format_, cold=cold)


def default_output(target: Target) -> Path:
    """Where the YAML for `target` is saved when the user names no file."""
    return Path("best") / (
        f"{target.instance}-{target.workload}-n{target.nodes}x{target.ranks_per_node}"
        f"-b{target.global_batch}.yaml"
    )


def _output(study: Study) -> Path:
    return Path(study.spec.output) if study.spec.output else default_output(study.spec.target)


def _run_and_report(
    study: Study,
    place: Place,
    store: Store,
    storage: str | None,
    format_: Format,
    notices: Sequence[str] = (),
    *,
    cold: bool = False,
) -> None:
    progress = Progress()
    progress.say(f"run {study.run_id}: {study.spec.target.describe()}")
    progress.say(f"machine: {place.machine.describe()}")
    for notice in notices:
        progress.say(f"notice: {notice}")
    with run_lock(study.run_id), _interruptible(progress) as cancel:
        running = runner(study, place, store, progress, cancel, cold=cold)
        with running.executor:
            end = running.run()
    progress.close()
    saved = _save(study, store, end)
    print_answer(study, end, store.trials(study.run_id), saved, format_)
    if end.interrupted:
        where = f" --storage {storage!r}" if storage else ""
        progress.say(f"interrupted; resume with: autotune resume {study.run_id}{where}")
        raise typer.Exit(EXIT_INTERRUPTED)
    if end.stuck:
        progress.say(f"stopped; once that is mended: autotune resume {study.run_id}")
        raise typer.Exit(EXIT_STUCK)
    if end.decision.conclusion is Conclusion.NO_CANDIDATE:
        raise typer.Exit(EXIT_NO_CANDIDATE)


def _save(study: Study, store: Store, end: StudyEnd) -> Path | None:
    """Write the store's answer for the target, which may be an earlier run's confirmed one.

    An unconfirmed answer never takes the place of a confirmed one in a file, either.
    """
    best = store.best(study.spec.target)
    if best is None or end.best is None:
        return None
    path = _output(study)
    if best.conclusion is Conclusion.UNCONFIRMED and _holds_confirmed(path):
        path = path.with_name(f"{path.stem}.unconfirmed{path.suffix}")
    write_atomically(path, to_yaml(best))
    return path


def _holds_confirmed(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        return read(path).conclusion is not Conclusion.UNCONFIRMED
    except UserError:
        # Somebody's file of another kind: not ours to replace by a guess.
        return True


@contextmanager
def _interruptible(progress: Progress) -> Iterator[Event]:
    """The first Ctrl-C, TERM or hang-up ends the study cleanly; the second one at once."""
    cancel = Event()

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        if cancel.is_set():
            raise KeyboardInterrupt
        cancel.set()
        progress.say(f"{signal.Signals(number).name}: ending the running trial …")

    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in caught}
    try:
        yield cancel
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

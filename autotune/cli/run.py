"""`autotune run` and `resume`: run a study and print its answer."""

import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from threading import Event
from types import FrameType
from typing import Annotated

import typer

from autotune.answers import keep_answer, shared_before
from autotune.budget import Budget, seconds
from autotune.cli.options import (
    BatchOption,
    ColdOption,
    ExecutorName,
    ExecutorOption,
    Format,
    FormatOption,
    InstancesOption,
    LandscapeOption,
    LossyOption,
    NoImdsOption,
    NprocOption,
    OnlyOption,
    OptionalInstance,
    OutputOption,
    SetOption,
    ShareOption,
    SpaceOption,
    StorageOption,
    StrategyOption,
    WorkloadOption,
    assignments,
    names,
    output_path,
)
from autotune.cli.progress import Progress
from autotune.cli.report import print_answer
from autotune.cli.saving import default_output, output_of, save_file
from autotune.cli.simulated import check_recorded, chosen_landscape, on_landscape
from autotune.compose import build_spec, find_study, landscape_of, new_study, runner
from autotune.errors import FieldError
from autotune.exporters.files import check_writable
from autotune.machine_lock import MachineUse, machine_use
from autotune.machines import LOCAL, Place, find_place, simulated_place
from autotune.model import Conclusion, Study, StudySpec, StudyStatus
from autotune.request import Request, Spaces, all_notices, build_space, build_target
from autotune.run_lock import run_lock
from autotune.storage import Store, default_url, open_store
from autotune.yaml_reader import read_yaml

EXIT_STUCK = 1
EXIT_NO_CANDIDATE = 3
EXIT_INTERRUPTED = 130


def run(
    instance: OptionalInstance = None,
    workload: WorkloadOption = "tiny",
    nproc: NprocOption = None,
    global_batch: BatchOption = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="DURATION|USD",
            help="For the whole study: wall time such as 90s, 30m or 2h, or money such as 20usd, "
            "by the instance's price. Default: 10m, or none with --trials.",
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
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="DURATION",
            help="Length of a measured window, of which a trial has five; those of the search are "
            "half as long. Longer ones for steps that take seconds. Default: 0.5s.",
        ),
    ] = None,
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
    share_machine: ShareOption = False,
    executor: ExecutorOption = ExecutorName.LOCAL,
    landscape: LandscapeOption = None,
) -> None:
    """Find the fastest steady configuration, and save it as YAML.

    Exit codes: 0 done (improved or keep-defaults: the output tells), 2 usage, 3 no candidate works,
    130 interrupted (resume with 'autotune resume').
    """
    path = output_path(output)
    source = chosen_landscape(
        executor, landscape, {"--instance": instance, "--output": output, "--cold": cold}
    )
    request = Request(
        instance=instance or LOCAL,
        workload=workload,
        nproc=nproc,
        global_batch=global_batch,
        budget=Budget() if budget is None else Budget.parse(budget),
        max_trials=trials,
        window_s=None if window is None else seconds(window, "--window"),
        seed=seed,
        strategy=strategy,
        pinned=assignments(set_ or [], "--set"),
        only=names(only, "--only"),
        space=Spaces.of(space),
        instances=instances,
        allow_lossy=allow_lossy,
        output=path,
    )
    if source is None:
        place = find_place(
            request.instance, instances=request.instance_sources, ask_ec2=not no_imds
        )
    else:
        request = on_landscape(request, source)
        place = simulated_place(source, instances=request.instance_sources)
    target = build_target(request, place.machine)
    built = build_space(request, place, target)
    spec = build_spec(request, target, built, place)
    if source is None:
        check_writable(path or default_output(target))
    else:
        check_recorded(built, source)
    using = machine_use(share=share_machine) if source is None else nullcontext()
    with open_store(storage or default_url()) as store, using as use:
        study = new_study(spec, place.machine, store)
        notices = all_notices(request, built)
        if cost := request.budget.describe(place, target.nodes):
            notices.append(cost)
        with run_lock(study.run_id):
            _run_and_report(study, place, store, storage, format_, use, notices, cold=cold)


def resume(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run id, the beginning of one, or 'latest'."),
    ],
    storage: StorageOption = None,
    format_: FormatOption = Format.TABLE,
    cold: ColdOption = False,
    share_machine: ShareOption = False,
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
        if not target.is_simulated:
            check_writable(output_of(study))
        text = study.spec.instances_text
        sources = [read_yaml(text, f"instances of run {study.run_id}")] if text else []
        place = (
            simulated_place(landscape_of(study.spec), instances=sources)
            if target.is_simulated
            else find_place(target.instance, instances=sources)
        )
        using = nullcontext() if target.is_simulated else machine_use(share=share_machine)
        with run_lock(study.run_id), using as use:
            _run_and_report(study, place, store, storage, format_, use, cold=cold)


def _run_and_report(
    study: Study,
    place: Place,
    store: Store,
    storage: str | None,
    format_: Format,
    use: MachineUse | None,
    notices: Sequence[str] = (),
    *,
    cold: bool = False,
) -> None:
    if use is not None:
        use.announce(study.run_id)
    progress = Progress(pinned=study.spec.pinned)
    progress.resumed(store.trials(study.run_id))
    progress.say(f"run {study.run_id}: {study.spec.target.describe()}")
    progress.say(f"machine: {place.machine.describe()}")
    if study.spec.target.is_simulated:
        progress.say(f"simulated on {study.spec.landscape}: nothing is measured, nothing is saved")
    for notice in notices:
        progress.say(f"notice: {notice}")
    before = shared_before(store, study)
    resume_command = _resume_command(study, storage, cold=cold)
    try:
        with _interruptible(progress) as cancel:
            running = runner(study, place, store, progress, cancel, cold=cold)
            with running.executor:
                end = running.run()
    except KeyboardInterrupt:
        progress.close()
        progress.say(f"interrupted at once; resume with: {resume_command}")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    progress.close()
    if end.best is not None:
        shared = (*before, *(use.shared_with() if use else ()))
        best = keep_answer(store, end.best, shared)
        end = replace(end, best=best, evidence=best.evidence)
    saved = save_file(study, store, end.best)
    print_answer(study, end, store.trials(study.run_id), saved, format_)
    if end.interrupted:
        progress.say(f"interrupted; resume with: {resume_command}")
        raise typer.Exit(EXIT_INTERRUPTED)
    if end.stuck:
        progress.say(f"stopped; once that is mended: {resume_command}")
        raise typer.Exit(EXIT_STUCK)
    if end.decision.conclusion is Conclusion.NO_CANDIDATE:
        raise typer.Exit(EXIT_NO_CANDIDATE)


def _resume_command(study: Study, storage: str | None, *, cold: bool) -> str:
    where = f" --storage {shlex.quote(storage)}" if storage else ""
    return f"autotune resume {study.run_id}{where}{' --cold' * cold}"


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

"""`autotune run`: run a study and print its answer."""

from collections.abc import Mapping
from contextlib import nullcontext

from autotune.budget import Budget, seconds
from autotune.cli.controller import control
from autotune.cli.mirroring import open_run_store
from autotune.cli.on_ray import chosen_cluster, for_cluster
from autotune.cli.on_sagemaker import Submission, for_job, run_in_job
from autotune.cli.options import (
    AddressOption,
    BatchOption,
    BudgetOption,
    ColdOption,
    DryRunOption,
    ExecutorName,
    ExecutorOption,
    Format,
    FormatOption,
    InstancesOption,
    LandscapeOption,
    LiveOption,
    LogToOption,
    LossyOption,
    MirrorOption,
    NodesOption,
    NoImdsOption,
    NprocOption,
    OnlyOption,
    OptionalInstance,
    OutputOption,
    ParallelOption,
    RunIdOption,
    SamplesOption,
    ScriptArgument,
    SeedOption,
    SetOption,
    ShareOption,
    SpaceOption,
    StorageOption,
    StrategyOption,
    TimeLimitOption,
    TrialsOption,
    WindowOption,
    WorkloadOption,
    assignments,
    names,
    output_path,
)
from autotune.cli.sagemaker_options import (
    DetachOption,
    ImageOption,
    KeepAliveOption,
    MaxCostOption,
    RoleOption,
    S3Option,
    SpotOption,
    chosen_sagemaker,
)
from autotune.cli.saving import default_output
from autotune.cli.script import print_commands, started_once, with_script
from autotune.cli.simulated import check_recorded, chosen_landscape, on_landscape
from autotune.cli.venue import Venue, venue
from autotune.compose import (
    Launching,
    build_spec,
    new_study,
)
from autotune.errors import FieldError
from autotune.exporters.files import check_writable
from autotune.machines import LOCAL
from autotune.model import StudySpec
from autotune.request import Request, Spaces, all_notices, build_space, build_target
from autotune.sagemaker.arguments import Asked
from autotune.tracking.base import Tracker
from autotune.tracking.destination import open_trackers
from autotune.user_script import script_notices
from autotune.user_workload import find_user_workload


def run(
    script: ScriptArgument = None,
    instance: OptionalInstance = None,
    workload: WorkloadOption = "tiny",
    nproc: NprocOption = None,
    global_batch: BatchOption = None,
    budget: BudgetOption = None,
    trials: TrialsOption = None,
    seed: SeedOption = 0,
    window: WindowOption = None,
    time_limit: TimeLimitOption = None,
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
    live: LiveOption = False,
    share_machine: ShareOption = False,
    executor: ExecutorOption = ExecutorName.LOCAL,
    nodes: NodesOption = None,
    address: AddressOption = None,
    parallel_trials: ParallelOption = None,
    landscape: LandscapeOption = None,
    samples_per_step: SamplesOption = None,
    dry_run: DryRunOption = False,
    log_to: LogToOption = None,
    mirror: MirrorOption = None,
    run_id: RunIdOption = None,
    role: RoleOption = None,
    image: ImageOption = None,
    spot: SpotOption = False,
    max_cost: MaxCostOption = None,
    s3: S3Option = None,
    keep_alive: KeepAliveOption = None,
    detach: DetachOption = False,
) -> None:
    """Find the fastest steady configuration, and save it as YAML.

    Exit codes: 0 done (improved, keep-defaults or unconfirmed: the output tells), 2 usage,
    3 no candidate works, 130 interrupted (resume with 'autotune resume').
    """
    path = output_path(output)
    limit_s = None if time_limit is None else seconds(time_limit, "--time-limit")
    trackers = open_trackers(log_to or [])
    source = chosen_landscape(
        executor,
        landscape,
        {
            "--instance": instance,
            "--output": output,
            "--cold": cold,
            "--live": live,
            "SCRIPT": script,
        },
    )
    in_job = chosen_sagemaker(
        executor,
        {
            "--role": role,
            "--image": image,
            "--spot": spot,
            "--max-cost": max_cost,
            "--s3": s3,
            "--keep-alive": keep_alive,
            "--detach": detach,
        },
        nodes=nodes,
        others={
            "--share-machine": share_machine,
            "--log-to": log_to,
            "--mirror": mirror,
            "--run-id": run_id,
            "--time-limit": time_limit,
        },
    )
    cluster = chosen_cluster(
        executor,
        None if in_job else nodes,
        address,
        {"--live": live, "--share-machine": share_machine},
        parallel_trials,
    )
    request = Request(
        instance=instance or LOCAL,
        workload=workload,
        own_workload=None if script else find_user_workload(workload),
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
    if source is not None:
        request = on_landscape(request, source)
    if cluster is not None:
        request = for_cluster(request, cluster)
    if script:
        request = with_script(request, script, samples_per_step)
    elif samples_per_step is not None:
        raise FieldError("--samples-per-step", samples_per_step, "is of scripts only")
    if in_job is not None:
        submission = Submission(
            request=for_job(request, in_job),
            options=in_job,
            asked=Asked(
                script=script or (),
                samples_per_step=samples_per_step,
                window=window,
                cold=cold,
                live=live,
            ),
            storage=storage,
            format_=format_,
        )
        run_in_job(submission, dry_run=dry_run)
        return
    with venue(
        request.instance,
        instances=request.instance_sources,
        launching=Launching(cold=cold, live=live, time_limit_s=limit_s),
        landscape=source,
        cluster=cluster,
        ask_ec2=not no_imds,
        workload=request.own_workload,
    ) as where:
        if dry_run:
            print_commands(request, where.place, samples_per_step)
            return
        if script:
            request = started_once(request, where, samples_per_step, share_machine=share_machine)
        _study(
            request, where, storage, format_, trackers,
            share_machine=share_machine, mirror=mirror, run_id=run_id,
        )  # fmt: skip


def _study(
    request: Request,
    where: Venue,
    storage: str | None,
    format_: Format,
    trackers: Mapping[str, Tracker],
    *,
    share_machine: bool,
    mirror: str | None,
    run_id: str | None,
) -> None:
    """A new study of what `request` asks for."""
    target = build_target(request, where.place.machine)
    built = build_space(request, where.place, target)
    spec = build_spec(request, target, built, where.place)
    if request.landscape is None:
        check_writable(request.output or default_output(target))
    else:
        check_recorded(built, request.landscape)
    with (
        open_run_store(storage, mirror) as store,
        where.using(share=share_machine) as use,
    ):
        study = new_study(spec, where.place.machine, store, run_id)
        notices = [*where.notices, *all_notices(request, built)]
        notices += script_notices(request.own_workload)
        if cost := request.budget.describe(where.place, target.nodes):
            notices.append(cost)
        control(
            study, where.place, store,
            storage=storage, mirror=mirror, format_=format_, using=nullcontext(use),
            notices=notices, launching=where.launching, trackers=trackers,
        )  # fmt: skip

"""The options of `autotune run`, and what is asked for with them."""

from dataclasses import dataclass

from autotune.budget import Budget
from autotune.cli.on_ray import ClusterOptions, chosen_cluster, for_cluster
from autotune.cli.option_set import OptionSet
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
    duration,
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
    SagemakerOptions,
    SpotOption,
    chosen_sagemaker,
)
from autotune.cli.script import with_script
from autotune.cli.simulated import chosen_landscape, on_landscape
from autotune.errors import FieldError
from autotune.executors.landscapes import LandscapeSource
from autotune.machines import LOCAL
from autotune.model import StudySpec
from autotune.request import Request, Spaces
from autotune.user_workload import find_user_workload


@dataclass(frozen=True, kw_only=True)
class RunOptions(OptionSet):
    """As they were typed."""

    script: ScriptArgument = None
    instance: OptionalInstance = None
    workload: WorkloadOption = "tiny"
    nproc: NprocOption = None
    global_batch: BatchOption = None
    budget: BudgetOption = None
    trials: TrialsOption = None
    seed: SeedOption = 0
    window: WindowOption = None
    time_limit: TimeLimitOption = None
    storage: StorageOption = None
    output: OutputOption = None
    format_: FormatOption = Format.TABLE
    set_: SetOption = None
    only: OnlyOption = None
    space: SpaceOption = "default"
    strategy: StrategyOption = StudySpec.search
    allow_lossy: LossyOption = False
    instances: InstancesOption = None
    no_imds: NoImdsOption = False
    cold: ColdOption = False
    live: LiveOption = False
    share_machine: ShareOption = False
    executor: ExecutorOption = ExecutorName.LOCAL
    nodes: NodesOption = None
    address: AddressOption = None
    parallel_trials: ParallelOption = None
    landscape: LandscapeOption = None
    samples_per_step: SamplesOption = None
    dry_run: DryRunOption = False
    log_to: LogToOption = None
    mirror: MirrorOption = None
    run_id: RunIdOption = None
    role: RoleOption = None
    image: ImageOption = None
    spot: SpotOption = False
    max_cost: MaxCostOption = None
    s3: S3Option = None
    keep_alive: KeepAliveOption = None
    detach: DetachOption = False


@dataclass(frozen=True, kw_only=True)
class Executors:
    """Where trials are to run, if not on this machine: at most one of the three."""

    source: LandscapeSource | None
    job: SagemakerOptions | None
    cluster: ClusterOptions | None


def chosen_executor(options: RunOptions) -> Executors:
    """Raises UserError for options that mean nothing together."""
    nodes = options.nodes
    source = chosen_landscape(
        options.executor,
        options.landscape,
        options.given("instance", "output", "cold", "live", "script"),
    )
    job = chosen_sagemaker(
        options.executor,
        options.given("role", "image", "spot", "max_cost", "s3", "keep_alive", "detach"),
        nodes=nodes,
        others=options.given("share_machine", "log_to", "mirror", "run_id", "time_limit"),
    )
    cluster = chosen_cluster(
        options.executor,
        None if job else nodes,
        options.address,
        options.given("live", "share_machine"),
        options.parallel_trials,
    )
    return Executors(source=source, job=job, cluster=cluster)


def requested(options: RunOptions, executors: Executors) -> Request:
    """What is to be tuned. Raises UserError for what can't be read or contradicts itself."""
    request = _as_typed(options)
    if executors.source is not None:
        request = on_landscape(request, executors.source)
    if executors.cluster is not None:
        request = for_cluster(request, executors.cluster)
    if options.script:
        return with_script(request, options.script, options.samples_per_step)
    if options.samples_per_step is not None:
        raise FieldError("--samples-per-step", options.samples_per_step, "is of scripts only")
    return request


def _as_typed(options: RunOptions) -> Request:
    return Request(
        instance=options.instance or LOCAL,
        workload=options.workload,
        own_workload=None if options.script else find_user_workload(options.workload),
        nproc=options.nproc,
        global_batch=options.global_batch,
        budget=Budget() if options.budget is None else Budget.parse(options.budget),
        max_trials=options.trials,
        window_s=duration(options.window, "--window"),
        seed=options.seed,
        strategy=options.strategy,
        pinned=assignments(options.set_ or [], "--set"),
        only=names(options.only, "--only"),
        space=Spaces.of(options.space),
        instances=options.instances,
        allow_lossy=options.allow_lossy,
        output=output_path(options.output),
    )

"""`autotune resume`: go on with a run, wherever its trials are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from autotune.cli.controller import control
from autotune.cli.following import Following
from autotune.cli.mirroring import open_run_store, study_to_resume
from autotune.cli.on_ray import cluster_again
from autotune.cli.option_set import OptionSet, takes
from autotune.cli.options import (
    AddressOption,
    ColdOption,
    ExecutorName,
    ExecutorOption,
    Format,
    FormatOption,
    LiveOption,
    LogToOption,
    MirrorOption,
    ParallelOption,
    ShareOption,
    StorageOption,
    TimeLimitOption,
    duration,
)
from autotune.cli.resume_job import jobs_of, resume_job
from autotune.cli.sagemaker_options import DetachOption, MaxCostOption, money
from autotune.cli.saving import check_output, output_of
from autotune.cli.venue import venue
from autotune.compose import Launching, instance_sources, landscape_of
from autotune.errors import FieldError
from autotune.model import Job, Study, StudyStatus
from autotune.storage import Store
from autotune.tracking.base import Tracker
from autotune.tracking.destination import open_trackers


@dataclass(frozen=True, kw_only=True)
class ResumeOptions(OptionSet):
    """As they were typed."""

    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run id, the beginning of one, or 'latest'."),
    ]
    storage: StorageOption = None
    format_: FormatOption = Format.TABLE
    cold: ColdOption = False
    live: LiveOption = False
    share_machine: ShareOption = False
    executor: ExecutorOption = ExecutorName.LOCAL
    address: AddressOption = None
    parallel_trials: ParallelOption = None
    log_to: LogToOption = None
    mirror: MirrorOption = None
    trust_script: Annotated[
        bool,
        typer.Option(
            "--trust-script",
            help="Start the script or workload that a run names which only the mirror knows.",
        ),
    ] = False
    time_limit: TimeLimitOption = None
    max_cost: MaxCostOption = None
    detach: DetachOption = False


_ELSEWHERE = (ExecutorName.RAY, ExecutorName.SIMULATED)


@takes(ResumeOptions)
def resume(options: ResumeOptions) -> None:
    """Finish a run that was interrupted or killed; finished trials are kept."""
    launching = Launching(
        cold=options.cold,
        live=options.live,
        time_limit_s=duration(options.time_limit, "--time-limit"),
    )
    trackers = open_trackers(options.log_to or [])
    with open_run_store(options.storage, options.mirror) as store:
        if jobs := jobs_of(store, options.run):
            _go_on_in_job(options, jobs, store)
            return
        for name, given in options.given("max_cost", "detach").items():
            if given:
                raise FieldError(name, given, "is of runs in a SageMaker job")
        study = study_to_resume(store, options.run, trusted=options.trust_script)
        _check_unfinished(study)
        _go_on_from_here(options, study, store, launching, trackers)


def _go_on_in_job(options: ResumeOptions, jobs: Sequence[Job], store: Store) -> None:
    resume_job(
        jobs,
        Following(store=store, storage=options.storage, format_=options.format_),
        max_usd=money(options.max_cost),
        detach=options.detach,
        others={
            "--executor": options.executor.value if options.executor in _ELSEWHERE else None,
            **options.given(
                "cold", "live", "share_machine", "address", "parallel_trials", "trust_script",
                "log_to", "mirror", "time_limit",
            ),
        },
    )  # fmt: skip


def _go_on_from_here(
    options: ResumeOptions,
    study: Study,
    store: Store,
    launching: Launching,
    trackers: Mapping[str, Tracker],
) -> None:
    target = study.spec.target
    if not target.is_simulated:
        check_output(study)
    with venue(
        target.instance,
        instances=instance_sources(study),
        launching=launching,
        landscape=landscape_of(study.spec) if target.is_simulated else None,
        cluster=cluster_again(
            study, options.executor, options.address, options.given("live", "share_machine"),
            options.parallel_trials,
        ),
        workload=study.spec.own_workload,
    ) as where:  # fmt: skip
        control(
            study, where.place, store,
            storage=options.storage, mirror=options.mirror, format_=options.format_,
            using=where.using(share=options.share_machine),
            launching=where.launching, notices=where.notices, trackers=trackers,
        )  # fmt: skip


def _check_unfinished(study: Study) -> None:
    if study.status is StudyStatus.FINISHED:
        raise FieldError(
            "RUN",
            study.run_id,
            "has finished: there is nothing to resume",
            hint=f"see what it found with: autotune show {study.run_id}{_where(study)}",
        )


def _where(study: Study) -> str:
    """Where the answer of a finished study is, which may have been killed before it wrote it."""
    if study.spec.target.is_simulated:
        return ""
    target = study.spec.target
    return (
        f"; its answer was written to {output_of(study)} if it is the one that is kept; where that "
        f"isn't: autotune best --instance {target.instance} --workload {target.workload}"
    )

"""`autotune resume`: go on with a run, wherever its trials are."""

from typing import Annotated

import typer

from autotune.budget import seconds
from autotune.cli.controller import control
from autotune.cli.following import Following
from autotune.cli.mirroring import open_run_store, study_to_resume
from autotune.cli.on_ray import cluster_again
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
)
from autotune.cli.resume_job import jobs_of, resume_job
from autotune.cli.sagemaker_options import DetachOption, MaxCostOption, money
from autotune.cli.saving import check_output, output_of
from autotune.cli.venue import venue
from autotune.compose import Launching, instance_sources, landscape_of
from autotune.errors import FieldError
from autotune.model import Study, StudyStatus
from autotune.tracking.destination import open_trackers

_ELSEWHERE = (ExecutorName.RAY, ExecutorName.SIMULATED)


def resume(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run id, the beginning of one, or 'latest'."),
    ],
    storage: StorageOption = None,
    format_: FormatOption = Format.TABLE,
    cold: ColdOption = False,
    live: LiveOption = False,
    share_machine: ShareOption = False,
    executor: ExecutorOption = ExecutorName.LOCAL,
    address: AddressOption = None,
    parallel_trials: ParallelOption = None,
    log_to: LogToOption = None,
    mirror: MirrorOption = None,
    trust_script: Annotated[
        bool,
        typer.Option(
            "--trust-script",
            help="Start the script or workload that a run names which only the mirror knows.",
        ),
    ] = False,
    time_limit: TimeLimitOption = None,
    max_cost: MaxCostOption = None,
    detach: DetachOption = False,
) -> None:
    """Finish a run that was interrupted or killed; finished trials are kept."""
    trackers = open_trackers(log_to or [])
    limit_s = None if time_limit is None else seconds(time_limit, "--time-limit")
    with open_run_store(storage, mirror) as store:
        if jobs := jobs_of(store, run):
            resume_job(
                jobs,
                Following(store=store, storage=storage, format_=format_),
                max_usd=money(max_cost),
                detach=detach,
                others={
                    "--executor": executor.value if executor in _ELSEWHERE else None,
                    "--cold": cold,
                    "--live": live,
                    "--share-machine": share_machine,
                    "--address": address,
                    "--parallel-trials": parallel_trials,
                    "--trust-script": trust_script,
                    "--log-to": log_to,
                    "--mirror": mirror,
                    "--time-limit": time_limit,
                },
            )
            return
        for name, given in {"--max-cost": max_cost, "--detach": detach}.items():
            if given:
                raise FieldError(name, given, "is of runs in a SageMaker job")
        study = study_to_resume(store, run, trusted=trust_script)
        if study.status is StudyStatus.FINISHED:
            raise FieldError(
                "RUN",
                study.run_id,
                "has finished: there is nothing to resume",
                hint=f"see what it found with: autotune show {study.run_id}{_where(study)}",
            )
        target = study.spec.target
        if not target.is_simulated:
            check_output(study)
        cluster = cluster_again(
            study, executor, address, {"--live": live, "--share-machine": share_machine},
            parallel_trials,
        )  # fmt: skip
        with venue(
            target.instance,
            instances=instance_sources(study),
            launching=Launching(cold=cold, live=live, time_limit_s=limit_s),
            landscape=landscape_of(study.spec) if target.is_simulated else None,
            cluster=cluster,
            workload=study.spec.own_workload,
        ) as where:
            control(
                study, where.place, store,
                storage=storage, mirror=mirror, format_=format_,
                using=where.using(share=share_machine),
                launching=where.launching, notices=where.notices, trackers=trackers,
            )  # fmt: skip


def _where(study: Study) -> str:
    """Where the answer of a finished study is, which may have been killed before it wrote it."""
    if study.spec.target.is_simulated:
        return ""
    target = study.spec.target
    return (
        f"; its answer was written to {output_of(study)} if it is the one that is kept; where that "
        f"isn't: autotune best --instance {target.instance} --workload {target.workload}"
    )

"""`autotune run`: run a study and print its answer."""

from collections.abc import Mapping
from contextlib import nullcontext

from autotune.cli.controller import control
from autotune.cli.mirroring import open_run_store
from autotune.cli.on_sagemaker import Submission, for_job, run_in_job
from autotune.cli.option_set import takes
from autotune.cli.options import duration
from autotune.cli.run_options import Executors, RunOptions, chosen_executor, requested
from autotune.cli.sagemaker_options import SagemakerOptions
from autotune.cli.saving import default_output
from autotune.cli.script import print_commands, started_once
from autotune.cli.simulated import check_recorded
from autotune.cli.venue import Venue, venue
from autotune.compose import (
    Launching,
    build_spec,
    new_study,
)
from autotune.exporters.files import check_writable
from autotune.request import Request, all_notices, build_space, build_target
from autotune.sagemaker.arguments import Asked
from autotune.tracking.base import Tracker
from autotune.tracking.destination import open_trackers
from autotune.user_script import script_notices

UNLIMITED = (
    "there is no --budget: after the search's trials, launches that tell close candidates apart "
    "and confirm go on as long as the noise asks for"
)


@takes(RunOptions)
def run(options: RunOptions) -> None:
    """Find the fastest steady configuration, and save it as YAML.

    Exit codes: 0 done (improved, keep-defaults or unconfirmed: the output tells), 2 usage,
    3 no candidate works, 130 interrupted (resume with 'autotune resume').
    """
    launching = Launching(
        cold=options.cold,
        live=options.live,
        time_limit_s=duration(options.time_limit, "--time-limit"),
    )
    trackers = open_trackers(options.log_to or [])
    executors = chosen_executor(options)
    request = requested(options, executors)
    if executors.job is not None:
        run_in_job(_submission(options, executors.job, request), dry_run=options.dry_run)
    else:
        _run_from_here(options, executors, request, launching, trackers)


def _submission(options: RunOptions, job: SagemakerOptions, request: Request) -> Submission:
    return Submission(
        request=for_job(request, job),
        options=job,
        asked=Asked(
            script=options.script or (),
            samples_per_step=options.samples_per_step,
            window=options.window,
            cold=options.cold,
            live=options.live,
        ),
        storage=options.storage,
        format_=options.format_,
    )


def _run_from_here(
    options: RunOptions,
    executors: Executors,
    request: Request,
    launching: Launching,
    trackers: Mapping[str, Tracker],
) -> None:
    samples = options.samples_per_step
    with venue(
        request.instance,
        instances=request.instance_sources,
        launching=launching,
        landscape=executors.source,
        cluster=executors.cluster,
        ask_ec2=not options.no_imds,
        workload=request.own_workload,
    ) as where:
        if options.dry_run:
            print_commands(request, where.place, samples)
            return
        if options.script:
            request = started_once(request, where, samples, share_machine=options.share_machine)
        _study(request, where, options, trackers)


def _study(
    request: Request, where: Venue, options: RunOptions, trackers: Mapping[str, Tracker]
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
        open_run_store(options.storage, options.mirror) as store,
        where.using(share=options.share_machine) as use,
    ):
        study = new_study(spec, where.place.machine, store, options.run_id)
        notices = [*where.notices, *all_notices(request, built)]
        notices += script_notices(request.own_workload)
        if cost := request.budget.describe(where.place, target.nodes):
            notices.append(cost)
        if spec.budget_s is None:
            notices.append(UNLIMITED)
        control(
            study, where.place, store,
            storage=options.storage, mirror=options.mirror, format_=options.format_,
            using=nullcontext(use), notices=notices, launching=where.launching, trackers=trackers,
        )  # fmt: skip

"""What `autotune run --executor sagemaker` does: check everything, submit one job, follow it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from autotune.cli.following import Following, follow_job
from autotune.cli.options import Format
from autotune.cli.render import print_json
from autotune.cli.sagemaker_options import SagemakerOptions
from autotune.cli.saving import default_output
from autotune.cli.script import with_batch
from autotune.compose import build_spec, new_run_id
from autotune.errors import FieldError
from autotune.executors.rank_environment import carried_environment
from autotune.exporters.files import check_writable
from autotune.machines import Place, catalogued_place
from autotune.model import StudySpec
from autotune.request import Request, all_notices, build_space, build_target
from autotune.sagemaker.arguments import Asked, files_of, inside_arguments
from autotune.sagemaker.installed import check_installed
from autotune.sagemaker.work_files import work_files
from autotune.storage import default_url, open_store
from autotune.user_workload import LIBRARIES

if TYPE_CHECKING:
    from autotune.sagemaker.account import Account
    from autotune.sagemaker.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A study that is to run in a job."""

    request: Request
    options: SagemakerOptions
    asked: Asked
    storage: str | None
    format_: Format

    @property
    def sends_folder(self) -> bool:
        """Whether the workload's code is the user's, so that their folder goes along."""
        is_library = self.request.workload.startswith(LIBRARIES)
        return bool(self.asked.script) or (self.request.own_workload is not None and not is_library)


def for_job(request: Request, options: SagemakerOptions) -> Request:
    """`request`, for as many nodes, with what of its environment the ranks will see."""
    return replace(
        request,
        assumed={**request.assumed, "nodes": str(options.nodes)},
        environment=carried_environment(request.environment),
    )


def run_in_job(submission: Submission, *, dry_run: bool) -> None:
    """Submit it, and follow it unless asked not to. With `dry_run` the request is only printed.

    Raises UserError for anything a local run would refuse, and as `aws_errors` does.
    """
    check_installed()
    from autotune.sagemaker.account import Account  # noqa: PLC0415 - boto3 is an extra

    account = Account()
    plan, notices = _planned(submission, account, only_shown=dry_run)
    for notice in notices:
        _say(f"notice: {notice}")
    work = _work(submission)
    if dry_run:
        print_json(plan.checked())
    else:
        _submit(submission, account, plan, work)


def _planned(
    submission: Submission, account: "Account", *, only_shown: bool
) -> tuple["Plan", Sequence[str]]:
    """The job to submit, and what a person should know of it."""
    from autotune.sagemaker.prepare import Surroundings, prepare  # noqa: PLC0415

    place = _checked_place(submission)
    spec, notices = _checked_spec(submission, place)
    wishes = submission.options.wishes
    around = (Surroundings.to_show if only_shown else Surroundings.of)(account, wishes)
    arguments = inside_arguments(submission.request, spec, submission.asked)
    price = place.instance.price if place.instance else None
    plan, more = prepare(new_run_id(datetime.now(UTC)), spec, arguments, wishes, around, price)
    return plan, [*notices, *more]


def _submit(
    submission: Submission, account: "Account", plan: "Plan", work: Mapping[str, bytes]
) -> None:
    from autotune.sagemaker.submission import submit_new  # noqa: PLC0415

    with open_store(submission.storage or default_url()) as store:
        following = Following(store=store, storage=submission.storage, format_=submission.format_)
        # Told before: if AWS refuses the job, the run is there, and can be resumed.
        _say(f"run {plan.request.run_id}: {plan.described}; {plan.request.s3}")
        job = submit_new(account, plan, store, work, submission.request.workload)
        _say(f"job {job.name} is submitted in {job.region}")
        if submission.options.detach:
            _say(f"follow it with: {following.resume_command(job.run_id)}")
        else:
            follow_job(account, job, following)


def _checked_place(submission: Submission) -> Place:
    request, asked = submission.request, submission.asked
    if asked.live and submission.options.nodes > 1:
        raise FieldError("--live", asked.live, "doesn't go with --nodes above 1")
    if asked.script and Path(asked.script[0]).is_absolute():
        raise FieldError(
            "SCRIPT", asked.script[0], "has to be relative to this folder, which goes along"
        )
    return catalogued_place(request.instance, instances=request.instance_sources)


def _checked_spec(submission: Submission, place: Place) -> tuple[StudySpec, Sequence[str]]:
    """The study as it will be inside: what is refused there is refused here."""
    request = with_batch(submission.request, place) if submission.asked.script else (
        submission.request
    )  # fmt: skip
    target = build_target(request, place.machine)
    space = build_space(request, place, target)
    check_writable(request.output or default_output(target))
    return build_spec(request, target, space, place), all_notices(request, space)


def _work(submission: Submission) -> dict[str, bytes]:
    own = work_files(Path.cwd()) if submission.sends_folder else {}
    return own | files_of(submission.request)


def _say(text: str) -> None:
    typer.echo(text, err=True)

"""What `autotune run --executor simulated` does otherwise than a run on a machine."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from autotune.cli.option_set import quotable
from autotune.cli.options import ExecutorName
from autotune.errors import FieldError, UserError
from autotune.executors.landscapes import LandscapeSource, Recorded, layout_of, shipped_names
from autotune.executors.landscapes.scenario import Job
from autotune.request import Request
from autotune.space.environment import named
from autotune.space.space import Space

_INSTANCE_HINTS = {
    ExecutorName.LOCAL: "this machine is --instance local",
    ExecutorName.RAY: "whatever the cluster's nodes are is --instance local",
    ExecutorName.SAGEMAKER: "name the machine type of the job; autotune instances lists them",
}
_MOST_LOOKED_AT = 20_000
"""Candidates of a space that are looked up in a table before a study begins."""


def chosen_landscape(
    executor: ExecutorName, landscape: str | None, others: Mapping[str, object]
) -> LandscapeSource | None:
    """The landscape to run on; None without the simulated executor.

    `others` are options that mean nothing with it. Raises UserError for what contradicts itself.
    """
    if executor is not ExecutorName.SIMULATED:
        if landscape is not None:
            raise FieldError("--landscape", landscape, "needs --executor simulated")
        if not others["--instance"]:
            raise UserError("--instance has to be given", hint=_INSTANCE_HINTS[executor])
        return None
    for name, value in others.items():
        if value not in (None, False):
            raise FieldError(name, quotable(value), "doesn't go with --executor simulated")
    if landscape is None:
        raise UserError(
            "--landscape has to be given with --executor simulated",
            hint=f"name one of {', '.join(shipped_names())}, or a YAML file",
        )
    return LandscapeSource.of(landscape)


def on_landscape(request: Request, source: LandscapeSource) -> Request:
    """`request` with what the landscape decides. Raises UserError for what contradicts it."""
    scenario = source.scenario()
    if scenario.job is not None:
        request = _as_recorded(request, scenario.job)
    return replace(
        request,
        nproc=scenario.ranks_per_node if request.nproc is None else request.nproc,
        assumed={"nodes": str(scenario.nodes)},
        # What is set on this machine holds nothing there.
        environment={},
        landscape=source,
    )


def check_recorded(space: Space, source: LandscapeSource) -> None:
    """Raises UserError if the space has candidates that a recorded landscape doesn't know."""
    speed = source.landscape().speed
    if not isinstance(speed, Recorded):
        return
    for candidate in islice(space.candidates(), _MOST_LOOKED_AT):
        layout = layout_of(space.settings(candidate), space.environment(candidate))
        if not speed.covers(layout):
            values = ", ".join(f"{name}={value}" for name, value in candidate.items())
            raise UserError(
                f"the landscape {source.label} has no record of the candidate {values}",
                hint="leave out --set, --only and --space: what was recorded is searched",
            )


def _as_recorded(request: Request, job: Job) -> Request:
    if request.workload != job.workload:
        raise FieldError(
            "--workload",
            request.workload,
            "is not what was recorded",
            alternatives=[job.workload],
        )
    if request.global_batch not in (None, job.global_batch):
        raise FieldError(
            "--global-batch",
            request.global_batch,
            "is not what was recorded",
            alternatives=[job.global_batch],
        )
    return replace(
        request, global_batch=job.global_batch, only=request.only or _free(job.only, request)
    )


def _free(recorded: Sequence[str], request: Request) -> tuple[str, ...]:
    """What is searched of the knobs that were recorded: a person may hold some of them."""
    knobs = request.space.knobs()
    held = {named(name, knobs, "--set").knob.name for name in request.pinned}
    return tuple(name for name in recorded if name not in held)

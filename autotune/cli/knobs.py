"""`autotune knobs`: what is searched, and why the rest is not."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from autotune.cli.options import (
    BatchOption,
    Format,
    FormatOption,
    InstanceOption,
    InstancesOption,
    LossyOption,
    NoImdsOption,
    NprocOption,
    OnlyOption,
    SetOption,
    SpaceOption,
    WorkloadOption,
    assignments,
    names,
)
from autotune.cli.render import print_json, print_table, shown
from autotune.errors import FieldError
from autotune.machines import LOCAL, Place, describe_place
from autotune.model import DEFAULT, Candidate
from autotune.request import Request, Spaces, all_notices, build_space, build_target
from autotune.space.knob import Effect
from autotune.space.space import Space
from autotune.space.view import KnobView, view
from autotune.user_workload import find_user_workload

_ORDER = list(Effect)


def knobs(
    instance: InstanceOption = LOCAL,
    assume: Annotated[
        list[str] | None,
        typer.Option(
            "--assume",
            metavar="FACT=VALUE,…",
            help="Describe the machine type from the catalogue, with these facts, such as "
            "nccl=2.27.5,torch=2.9.1,plugin=1.17,nodes=2.",
        ),
    ] = None,
    strategy: Annotated[
        str | None, typer.Option("--strategy", help="Short for --set strategy=….")
    ] = None,
    workload: WorkloadOption = "tiny",
    nproc: NprocOption = None,
    global_batch: BatchOption = None,
    set_: SetOption = None,
    only: OnlyOption = None,
    space: SpaceOption = "default",
    allow_lossy: LossyOption = False,
    instances: InstancesOption = None,
    no_imds: NoImdsOption = False,
    why: Annotated[
        bool, typer.Option("--why", help="Also list what is left out, with the reasons.")
    ] = False,
    format_: FormatOption = Format.TABLE,
) -> None:
    """List what is searched, and with --why also why the rest is left out.

    A machine type that isn't this machine is described from the catalogue.
    """
    pins = assignments(set_ or [], "--set")
    if strategy is not None and pins.setdefault("strategy", strategy) != strategy:
        raise FieldError("--strategy", strategy, "contradicts --set strategy")
    request = Request(
        instance=instance,
        workload=workload,
        own_workload=find_user_workload(workload),
        nproc=nproc,
        global_batch=global_batch,
        pinned=pins,
        only=names(only, "--only"),
        space=Spaces.of(space),
        instances=instances,
        allow_lossy=allow_lossy,
        assumed=assignments(names(assume, "--assume"), "--assume"),
    )
    place = describe_place(
        instance,
        instances=request.instance_sources,
        ask_ec2=not no_imds,
        assumed=request.assumed,
    )
    built = build_space(request, place, build_target(request, place.machine))
    _say(place, request, built, why)
    views = sorted((view(built, k) for k in built.knobs), key=lambda v: _ORDER.index(v.knob.effect))
    if format_ is Format.JSON:
        print_json([_data(v, built) for v in views])
    else:
        _print(place, built, views, why)


def _say(place: Place, request: Request, space: Space, why: bool) -> None:
    lines = []
    if not place.is_here:
        lines.append(f"{place.machine.instance} is described from the catalogue")
        if not space.facts.nccl:
            lines.append("its version of NCCL isn't known: give it with --assume nccl=2.27.5")
    lines += all_notices(request, space) if why else []
    sys.stderr.writelines(f"notice: {line}\n" for line in lines)


def _print(place: Place, space: Space, views: Sequence[KnobView], why: bool) -> None:
    baseline = space.baseline()
    chosen = [v for v in views if why or v.searched or v.knob.name in space.pinned]
    nodes = space.facts.nodes
    ranks = space.facts.ranks_per_node
    title = (
        f"Knobs for {place.machine.instance}, {nodes} node{'s' * (nodes != 1)} x {ranks} "
        f"rank{'s' * (ranks != 1)}, global batch {space.facts.global_batch}"
    )
    about = "what it does" + ", and why values are left out" * why
    columns = ["knob", "values", "default", "searched", about]
    print_table(title, columns, [_row(v, space, baseline, why) for v in chosen])
    if not why:
        _print_rest([v for v in views if v not in chosen])


def _print_rest(views: Sequence[KnobView]) -> None:
    """The rest in a line for each reason."""
    groups: dict[str, list[str]] = {}
    for v in views:
        if v.reason:
            reason = f"left out: {v.reason}"
        else:
            reason = "with --space full" if len(v.values) > 1 else "one value only"
        groups.setdefault(reason, []).append(v.knob.name)
    sys.stdout.write("\n" * bool(groups))
    for reason, found in groups.items():
        sys.stdout.write(f"{reason}: {', '.join(found)}\n")
    sys.stdout.write("the reasons for each value: --why\n" * bool(groups))


def _row(seen: KnobView, space: Space, baseline: Candidate, why: bool) -> list[str]:
    name = seen.knob.name
    default = "-"
    if name in baseline:
        default = shown(baseline[name])
        if baseline[name] == DEFAULT and seen.default_means is not None:
            default += f" ({shown(seen.default_means)})"
    values = " ".join(map(shown, seen.values)) or "-"
    text = _explanation(seen) if why else seen.knob.help
    return [name, values, default, _searched(seen, space), text]


def _searched(seen: KnobView, space: Space) -> str:
    if seen.held_by:
        return "held"
    if seen.knob.name in space.pinned:
        return "pinned"
    if seen.searched:
        return "yes"
    return "full" if len(seen.values) > 1 and not space.only else "no"


def _explanation(seen: KnobView) -> str:
    if seen.reason:
        return f"left out: {seen.reason}"
    held = f" Your environment decides: {seen.held_by}." if seen.held_by else ""
    values: dict[str, list[str]] = {}
    for value, why in seen.left_out.items():
        values.setdefault(why, []).append(value)
    left_out = "; ".join(f"{', '.join(same)} left out: {why}" for why, same in values.items())
    return f"{seen.knob.help}{held} {left_out}".rstrip()


def _data(seen: KnobView, space: Space) -> object:
    knob = seen.knob
    return {
        "name": knob.name,
        "help": knob.help,
        "sets": knob.sets,
        "values": list(seen.values),
        "default": knob.default,
        "default_means": seen.default_means,
        "searched": seen.searched,
        "pinned": space.pinned.get(knob.name),
        "held_by": seen.held_by,
        "reason": seen.reason,
        "left_out": seen.left_out,
        "effect": knob.effect.value,
        "touches": knob.touches,
        "unit": knob.unit,
        "source": knob.source,
    }

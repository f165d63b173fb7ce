"""`autotune knobs`, `instances` and `workloads`: what there is to choose from."""

from collections.abc import Container

from autotune.cli.options import (
    BatchOption,
    Format,
    FormatOption,
    InstanceOption,
    NprocOption,
    OnlyOption,
    SetOption,
    WorkloadOption,
    assignments,
    names,
)
from autotune.cli.render import print_json, print_table, shown
from autotune.compose import LOCAL, Request, build_space, build_target, find_machine
from autotune.model import PRESETS, encode
from autotune.space.instances import InstanceType, load_instances
from autotune.space.space import KnobView


def knobs(
    instance: InstanceOption = LOCAL,
    workload: WorkloadOption = "tiny",
    nproc: NprocOption = None,
    global_batch: BatchOption = None,
    set_: SetOption = None,
    only: OnlyOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """List what is searched here, and why the rest is left out."""
    request = Request(
        instance=instance,
        workload=workload,
        nproc=nproc,
        global_batch=global_batch,
        pinned=assignments(set_ or [], "--set"),
        only=names(only),
    )
    machine = find_machine(instance)
    target = build_target(request, machine)
    space = build_space(request, machine, target)
    baseline = space.baseline()
    views = [space.view(knob) for knob in space.knobs]
    if format_ is Format.JSON:
        print_json([_knob_data(view) for view in views])
        return
    print_table(
        f"Knobs for {target.describe()}",
        ["knob", "values", "default", "searched", "what it does, and why values are left out"],
        [
            [
                view.knob.name,
                " ".join(map(shown, view.values)) or "-",
                shown(baseline[view.knob.name]) if view.knob.name in baseline else "-",
                _searched(view, space.pinned),
                _explanation(view),
            ]
            for view in views
        ],
    )


def _searched(view: KnobView, pinned: Container[str]) -> str:
    if view.searched:
        return "yes"
    return "pinned" if view.knob.name in pinned else "no"


def _explanation(view: KnobView) -> str:
    if view.reason:
        return f"left out: {view.reason}"
    left_out = [f"{shown(value)} left out: {why}" for value, why in view.left_out.items()]
    return "; ".join([view.knob.help, *left_out])


def _knob_data(view: KnobView) -> object:
    return {
        "name": view.knob.name,
        "help": view.knob.help,
        "values": list(view.values),
        "default": view.knob.default,
        "searched": view.searched,
        "reason": view.reason,
        "left_out": {shown(value): why for value, why in view.left_out.items()},
        "effect": view.knob.effect.value,
        "unit": view.knob.unit,
        "source": view.knob.source,
    }


def workloads(format_: FormatOption = Format.TABLE) -> None:
    """List the built-in workloads."""
    if format_ is Format.JSON:
        print_json([{**encode(p), "parameters": p.parameters} for p in PRESETS.values()])
        return
    print_table(
        "Workloads",
        ["name", "parameters", "form", "sequence", "global batch", "what it is"],
        [
            [
                p.name,
                f"{p.parameters / 1e6:,.1f} M",
                p.form.value,
                str(p.sequence),
                str(p.global_batch),
                p.help,
            ]
            for p in PRESETS.values()
        ],
    )


def instances(format_: FormatOption = Format.TABLE) -> None:
    """List the machine types that are known by name."""
    catalogue = load_instances()
    if format_ is Format.JSON:
        print_json([encode(entry) for entry in catalogue.values()])
        return
    print_table(
        "Instances (a price is on demand, as of its date; ? is not verified)",
        ["name", "GPUs", "between GPUs", "network", "CPU", "USD/h"],
        [_instance_row(entry) for entry in catalogue.values()],
    )


def _instance_row(entry: InstanceType) -> list[str]:
    link = entry.interconnect.value
    if entry.interconnect_gb_per_s:
        link += f" {entry.interconnect_gb_per_s:g} GB/s"
        link += "?" * ("interconnect_gb_per_s" in entry.unverified)
    network = f"{entry.network_gbps:g} Gbit/s" + f", EFA x {entry.nics}" * entry.efa
    price = "-"
    if entry.price:
        price = f"{entry.price.usd_per_hour:.2f}{'?' * ('price' in entry.unverified)}"
        price += f" ({entry.price.as_of})"
    return [
        entry.name,
        f"{entry.gpus} x {entry.gpu}, {entry.gpu_memory_mib / 1024:.0f} GiB",
        link,
        network,
        f"{entry.vcpus} vCPUs, {entry.memory_gib} GiB",
        price,
    ]

"""`autotune instances` and `workloads`: what there is to choose from."""

from autotune.cli.options import Format, FormatOption, InstancesOption
from autotune.cli.render import print_json, print_table
from autotune.model import PRESETS, encode
from autotune.space.instances import InstanceType, load_instances
from autotune.yaml_reader import read_source


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


def instances(instances: InstancesOption = None, format_: FormatOption = Format.TABLE) -> None:
    """List the machine types that are known by name."""
    catalogue = load_instances([read_source(instances)] if instances else [])
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

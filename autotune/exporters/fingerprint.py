"""Whether a configuration fits a machine and a model, by what it says it was measured with."""

from collections.abc import Iterator, Mapping

from autotune.model import BestConfiguration, Machine
from autotune.space.facts import Links
from autotune.space.instances import load_instances, mismatch

COMPARED = ("torch", "cuda", "nccl", "driver", "plugin")
"""Versions that decide how fast a configuration is."""
_OWN_NAME = "local-"
"""How the names begin of machines that are in no catalogue."""


def misfit(best: BestConfiguration, machine: Machine) -> str:
    """Why `machine` isn't the kind that `best` was measured on; empty if it may be one."""
    name = best.target.instance
    gpu = _other_gpu(best, machine)
    if machine.instance == name or gpu:
        return gpu
    if name.startswith(_OWN_NAME):
        return f"it was measured on {name}, and this is {machine.instance}"
    entry = load_instances([]).get(name)
    # Of a name in a user's own catalogue only the GPU can be compared.
    difference = mismatch(machine, entry) if entry else None
    return f"this machine isn't a {name}: {difference}" if difference else ""


def changes(
    best: BestConfiguration, machine: Machine, links: Links, versions: Mapping[str, str]
) -> list[str]:
    """What is different here from when `best` was measured, beside what makes a `misfit`."""
    here = {**machine.versions, **versions}
    if links.plugin:
        here["plugin"] = links.plugin
    found = [
        f"{name} was {best.versions[name]} and is {here[name]}"
        for name in COMPARED
        if name in best.versions and name in here and best.versions[name] != here[name]
    ]
    return [*found, *_topology(best, machine, links)]


def other_model(best: BestConfiguration, parameters: int) -> str:
    """How a model of so many `parameters` isn't the one that was measured; empty if it may be."""
    known = best.evidence.fingerprint
    if known is None or known.parameters == parameters:
        return ""
    return (
        f"measured with {best.target.workload}, a model of {known.parameters:,} parameters; "
        f"this one has {parameters:,}, for which other settings may be faster"
    )


def _other_gpu(best: BestConfiguration, machine: Machine) -> str:
    known = best.evidence.fingerprint
    then = known.gpu if known else best.versions.get("gpu", "")
    now = {gpu.name for gpu in machine.gpus}
    if then and not now:
        return f"it was measured on {then}, and no GPU is visible here"
    if then and now != {then}:
        return f"it was measured on {then}, and this machine has {', '.join(sorted(now))}"
    return ""


def _topology(best: BestConfiguration, machine: Machine, links: Links) -> Iterator[str]:
    known = best.evidence.fingerprint
    if known is None:
        return
    between = "nvswitch" if links.nvswitch else "nvlink" if links.nvlink else "pcie"
    pairs: dict[str, tuple[object, object]] = {
        "cores": (known.cores, machine.cores),
        "NUMA nodes": (known.numa_nodes, machine.numa_nodes),
    }
    if machine.gpus:
        pairs["links between GPUs"] = (known.links, between)
    if best.target.nodes > 1:
        pairs["network"] = (known.network, links.network.value)
        pairs["network cards"] = (known.nics, links.nics)
    for name, (then, now) in pairs.items():
        if then != now:
            yield f"{name}: {then} then, {now} now"

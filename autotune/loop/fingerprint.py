"""What an answer's figures hang on: from the study's facts and from what a trial saw."""

from dataclasses import asdict

from autotune.model import PRESETS, DeviceKind, Fingerprint, Measurement
from autotune.space.facts import Facts

_SHAPES = ("layers", "width", "heads", "hidden", "vocabulary", "sequence")


def fingerprint(facts: Facts, workload: str, measured: Measurement) -> Fingerprint:
    """The machine that `facts` are about, and the model that was `measured` on it."""
    config = PRESETS.get(workload)
    return Fingerprint(
        gpu=measured.versions.get("gpu", ""),
        cores=facts.cores,
        numa_nodes=facts.numa_nodes,
        links=_links(facts),
        network=facts.between_nodes.value,
        nics=facts.nics,
        parameters=measured.parameters,
        compute_dtype=str(measured.effective.get("compute_dtype", "")),
        shapes={name: asdict(config)[name] for name in _SHAPES} if config else {},
    )


def versions(facts: Facts, measured: Measurement) -> dict[str, str]:
    """Of the libraries that the ranks had, and of the network's plugin."""
    found = dict(measured.versions)
    return found | {"plugin": facts.plugin} if facts.plugin else found


def _links(facts: Facts) -> str:
    if facts.device is DeviceKind.CPU:
        return "none"
    return "nvswitch" if facts.nvswitch else "nvlink" if facts.nvlink else "pcie"

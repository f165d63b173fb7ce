"""What a measured result hangs on, beside its target and the versions of the libraries."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """The machine and the model that a configuration was measured with."""

    gpu: str = ""
    """The model as the driver names it; empty for ranks on the CPU."""
    cores: int
    """Of a node, usable by the trials."""
    numa_nodes: int
    links: str
    """What is between the GPUs of a node: `nvswitch`, `nvlink`, `pcie`, or `none` without GPUs."""
    network: str
    """What is between nodes: `efa`, `ib` or `socket`."""
    nics: int
    """Network cards of a node that collectives can use."""
    parameters: int
    """Elements of the model."""
    compute_dtype: str
    """Format that the model computes in, read back."""
    shapes: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the model and of a sample, such as `layers` and `sequence`; empty if not known."""

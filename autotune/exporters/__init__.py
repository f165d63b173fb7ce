"""The YAML document of a best configuration, and its forms for other tools."""

from autotune.errors import FieldError
from autotune.exporters.accelerate import AccelerateExporter
from autotune.exporters.base import Exporter
from autotune.exporters.deepspeed import DeepspeedExporter
from autotune.exporters.document import from_yaml, read, to_yaml
from autotune.exporters.env import EnvExporter
from autotune.exporters.files import check_writable, write_atomically
from autotune.exporters.hf import HfExporter
from autotune.exporters.kubernetes import PyTorchJobExporter, RayJobExporter
from autotune.exporters.lightning import LightningExporter
from autotune.exporters.nccl_conf import NcclConfExporter
from autotune.exporters.nccl_tuner import NcclTunerExporter
from autotune.exporters.ray import RayExporter
from autotune.exporters.sagemaker import SagemakerExporter
from autotune.exporters.slurm import SlurmExporter
from autotune.exporters.torchrun import TorchrunExporter
from autotune.exporters.torchtitan import TorchtitanExporter

_ALL: tuple[Exporter, ...] = (
    EnvExporter(),
    TorchrunExporter(),
    NcclConfExporter(),
    AccelerateExporter(),
    HfExporter(),
    LightningExporter(),
    TorchtitanExporter(),
    DeepspeedExporter(),
    RayExporter(),
    SagemakerExporter(),
    SlurmExporter(),
    PyTorchJobExporter(),
    RayJobExporter(),
    NcclTunerExporter(),
)
EXPORTERS = {one.name: one for one in _ALL}
"""By the name that `--to` takes."""


def exporter(name: str) -> Exporter:
    """The exporter called `name`. Raises FieldError with the names there are."""
    if name not in EXPORTERS:
        raise FieldError("--to", name, "is not a known form", alternatives=EXPORTERS)
    return EXPORTERS[name]


__all__ = [
    "EXPORTERS",
    "Exporter",
    "check_writable",
    "exporter",
    "from_yaml",
    "read",
    "to_yaml",
    "write_atomically",
]

"""The YAML document of a best configuration, and its forms for other tools."""

from autotune.errors import FieldError
from autotune.exporters.base import Exporter
from autotune.exporters.document import from_yaml, read, to_yaml
from autotune.exporters.env import EnvExporter
from autotune.exporters.files import check_writable, write_atomically
from autotune.exporters.torchrun import TorchrunExporter

EXPORTERS: dict[str, Exporter] = {e.name: e for e in (EnvExporter(), TorchrunExporter())}
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

"""How fast a simulated machine is with every candidate, how noisy, and what fails on it. Pure."""

from autotune.executors.landscapes.drift import Drift, DriftKind
from autotune.executors.landscapes.effects import Effects, Rule
from autotune.executors.landscapes.failures import Each, Failure
from autotune.executors.landscapes.files import LandscapeSource, shipped_names
from autotune.executors.landscapes.landscape import Landscape
from autotune.executors.landscapes.layout import Layout, changes, layout_of
from autotune.executors.landscapes.noise import Noise
from autotune.executors.landscapes.recorded import Recorded, Row, table_bytes
from autotune.executors.landscapes.scenario import CPU, Scenario

__all__ = [
    "CPU",
    "Drift",
    "DriftKind",
    "Each",
    "Effects",
    "Failure",
    "Landscape",
    "LandscapeSource",
    "Layout",
    "Noise",
    "Recorded",
    "Row",
    "Rule",
    "Scenario",
    "changes",
    "layout_of",
    "shipped_names",
    "table_bytes",
]

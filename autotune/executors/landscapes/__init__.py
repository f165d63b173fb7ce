"""How fast a simulated machine is with every candidate, how noisy, and what fails on it. Pure."""

from autotune.executors.landscapes.drift import Drift, DriftKind
from autotune.executors.landscapes.effects import Effects, Rule
from autotune.executors.landscapes.failures import Each, Failure
from autotune.executors.landscapes.landscape import Landscape
from autotune.executors.landscapes.layout import Layout, changes, layout_of
from autotune.executors.landscapes.noise import Noise

__all__ = [
    "Drift",
    "DriftKind",
    "Each",
    "Effects",
    "Failure",
    "Landscape",
    "Layout",
    "Noise",
    "Rule",
    "changes",
    "layout_of",
]

"""autotune finds the fastest steady configuration for distributed PyTorch training on a machine.

    import autotune

    config = autotune.load("best.yaml")
    config.apply_env()

docs/use_in_scripts.md has the rest. Importing it is cheap: nothing beyond the standard library is
loaded until it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune.apply.configuration import Configuration, load
    from autotune.apply.trial import Current, ScriptTrial, current, trial
    from autotune.errors import AutotuneError, FieldError, UserError
    from autotune.model import BestConfiguration, ShardingStrategy, Target, TrainingSettings
    from autotune.trainers.accumulation import Accumulation
    from autotune.trainers.batches import batches_of
    from autotune.trainers.workload import Context, Workload

__version__ = "0.1.0"

_PLACES = {
    "Accumulation": "autotune.trainers.accumulation",
    "AutotuneError": "autotune.errors",
    "BestConfiguration": "autotune.model",
    "Configuration": "autotune.apply.configuration",
    "Context": "autotune.trainers.workload",
    "Current": "autotune.apply.trial",
    "FieldError": "autotune.errors",
    "ScriptTrial": "autotune.apply.trial",
    "ShardingStrategy": "autotune.model",
    "Target": "autotune.model",
    "TrainingSettings": "autotune.model",
    "UserError": "autotune.errors",
    "Workload": "autotune.trainers.workload",
    "batches_of": "autotune.trainers.batches",
    "current": "autotune.apply.trial",
    "load": "autotune.apply.configuration",
    "trial": "autotune.apply.trial",
}
"""Where each public name is, to be imported when it is asked for."""

__all__ = [
    "Accumulation",
    "AutotuneError",
    "BestConfiguration",
    "Configuration",
    "Context",
    "Current",
    "FieldError",
    "ScriptTrial",
    "ShardingStrategy",
    "Target",
    "TrainingSettings",
    "UserError",
    "Workload",
    "__version__",
    "batches_of",
    "current",
    "load",
    "trial",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'autotune' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

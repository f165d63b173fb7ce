"""What `--log-to` names: a tool, and where it keeps its records."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from autotune.errors import FieldError, UserError
from autotune.model.secrets import redacted
from autotune.tracking.base import Tracker

FIELD = "--log-to"
_FORMS = ("tensorboard:FOLDER", "mlflow:URI", "wandb:FOLDER", "cloudwatch:stderr")
_LIBRARIES = {"tensorboard": "tensorboard", "mlflow": "mlflow", "wandb": "wandb", "cloudwatch": ""}
"""What a tool's record needs to import, if anything; its extra is called as the tool."""


def open_trackers(texts: Sequence[str]) -> dict[str, Tracker]:
    """A record for each of `texts`, by what names it in messages.

    Raises FieldError for what isn't TOOL:PLACE, and UserError for a tool that isn't installed.
    """
    return {redacted(text): _open(text) for text in texts}


def _open(text: str) -> Tracker:
    tool, colon, place = text.partition(":")
    if tool not in _LIBRARIES or not colon or not place:
        raise FieldError(FIELD, redacted(text), "has to be TOOL:PLACE", alternatives=_FORMS)
    try:
        if library := _LIBRARIES[tool]:
            import_module(library)
    except ImportError as error:
        raise UserError(
            f"{FIELD} {tool}: it can't be imported: {error}",
            hint=f"pip install 'autotune-train[{tool}]'",
        ) from None
    return _TRACKERS[tool](place)


def _tensorboard(place: str) -> Tracker:
    from autotune.tracking.tensorboard import TensorBoardTracker  # noqa: PLC0415 - in an extra

    return TensorBoardTracker(place)


def _mlflow(place: str) -> Tracker:
    from autotune.tracking.mlflow import MlflowTracker  # noqa: PLC0415 - in an extra

    return MlflowTracker(place)


def _wandb(place: str) -> Tracker:
    from autotune.tracking.wandb import WandbTracker  # noqa: PLC0415 - in an extra

    return WandbTracker(place)


def _cloudwatch(place: str) -> Tracker:
    from autotune.tracking.cloudwatch import CloudWatchTracker  # noqa: PLC0415 - as the others

    return CloudWatchTracker(place)


_TRACKERS: Mapping[str, Callable[[str], Tracker]] = {
    "tensorboard": _tensorboard,
    "mlflow": _mlflow,
    "wandb": _wandb,
    "cloudwatch": _cloudwatch,
}

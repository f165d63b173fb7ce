"""A trial as the user's script sees it: `autotune.trial` and `autotune.current`.

Outside of autotune the same lines do nothing, or apply the file that AUTOTUNE_CONFIG names.
"""

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import torch
from torch import nn

from autotune.apply.configuration import BySettings, Configuration, device_of_model, load
from autotune.errors import FieldError
from autotune.model import TrainingSettings
from autotune.trainers.layers import ModelLayers, find_blocks
from autotune.trainers.parallelize import parallelize
from autotune.trainers.script import session

CONFIG = "AUTOTUNE_CONFIG"
"""Names a YAML file that scripts apply outside of trials."""


class ScriptTrial:
    """What `with autotune.trial(...) as t` gives: told of each optimizer step."""

    def __init__(self, samples_per_step: int | None) -> None:
        self._samples_per_step = samples_per_step

    def __enter__(self) -> Self:
        if session.active is not None:
            session.active.begin(self._samples_per_step)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def step(self, loss: torch.Tensor | float | None = None) -> None:
        """An optimizer step is done; `loss` is this rank's mean over the step.

        In a trial it ends the script, by an exception derived from SystemExit, once the trial has
        been measured. Outside it does nothing.
        """
        if session.active is not None:
            session.active.step(loss)


def trial(*, samples_per_step: int | None = None) -> ScriptTrial:
    """Have autotune measure by the steps that the script tells it of.

    `samples_per_step` are those of an optimizer step over all ranks, if autotune is not to count
    them from the batches of DataLoaders.
    """
    if samples_per_step is not None and samples_per_step < 1:
        raise FieldError("samples_per_step", samples_per_step, "has to be at least 1")
    return ScriptTrial(samples_per_step)


class Current(BySettings):
    """The configuration that holds now: the trial's, that of AUTOTUNE_CONFIG, or the defaults."""

    def __init__(self, settings: TrainingSettings, configuration: Configuration | None) -> None:
        self._settings = settings
        self._configuration = configuration

    @property
    def settings(self) -> TrainingSettings:
        return self._settings

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of the file; those of a trial are set already."""
        return self._configuration.environment if self._configuration else {}

    def apply_env(self) -> None:
        """As `Configuration.apply_env`; nothing in a trial, whose variables are set."""
        if self._configuration is not None:
            self._configuration.apply_env()

    def parallelize(self, model: nn.Module) -> nn.Module:
        """As `Configuration.parallelize`, by the settings of now."""
        if self._configuration is not None:
            return self._configuration.parallelize(model)
        layers = ModelLayers(model=model, blocks=find_blocks(model))
        return parallelize(layers, self.settings, device_of_model(model))


def current(*, micro_batch: int = 1) -> Current:
    """The configuration that holds now.

    `micro_batch` is what a rank takes for a step where nothing says otherwise. Raises UserError for
    a file in AUTOTUNE_CONFIG that `autotune.load` refuses.
    """
    if session.active is not None:
        return Current(session.active.settings(micro_batch), None)
    if path := os.environ.get(CONFIG):
        configuration = load(path)
        return Current(configuration.settings, configuration)
    return Current(TrainingSettings(micro_batch=micro_batch), None)

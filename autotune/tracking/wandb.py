"""Weights & Biases, offline: nothing leaves the machine until `wandb sync` is run."""

from typing import Any

import wandb

from autotune.tracking.base import Closing, Entry, Opening, Tracker

PROJECT = "autotune"


class WandbTracker(Tracker):
    """A run in FOLDER/wandb; every trial is a step of it, and a row of its table."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._run: Any = None

    def begin(self, opening: Opening) -> None:
        self._run = wandb.init(
            project=PROJECT,
            name=opening.run,
            # A resumed study goes on in the same run once both are synced.
            id=opening.run,
            resume="allow",
            dir=self._folder,
            mode="offline",
            config=dict(opening.texts),
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                x_disable_stats=True,
            ),
        )

    def add(self, entry: Entry) -> None:
        texts = {f"settings/{name}": value for name, value in entry.settings.items()}
        self._run.log({**entry.figures, **entry.texts, **texts, "trial": entry.number})

    def end(self, closing: Closing) -> None:
        self._run.summary.update({**closing.texts, **closing.figures})

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
            # The file is whole only when wandb's own process has ended.
            wandb.teardown()

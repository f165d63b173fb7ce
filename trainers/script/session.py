"""The trial that runs in this process, for the script to ask for and to tell of its steps."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Timer
from typing import Any
from weakref import ref

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from autotune.errors import FieldError
from autotune.model import Samples, TrainingSettings, TrialSpec
from autotune.trainers.process import leave
from autotune.trainers.script.counts import Counts
from autotune.trainers.script.meter import Meter

LEAVE_S = 5.0
"""For what a script does on its way out: closing files, ending workers."""


class Done(SystemExit):
    """The trial has what it needs; leads out of the script, whose `finally` blocks run."""


@dataclass(kw_only=True)
class Session:
    """The trial of this process."""

    spec: TrialSpec
    ranks: int
    counts: Counts
    meter: Meter
    on_over: Callable[[], None]
    """Called once, when all has been measured."""
    on_error: Callable[[Exception], None]
    """Called when measuring fails, which no `except` of the script's may hide."""
    loss_source: str = "none"
    """`told` by the script, or `seen` as what it computes gradients of."""
    samples_told: int | None = None
    is_told: bool = False
    """The script itself says when a step is done."""
    _owner: int = field(default_factory=os.getpid)
    _leader: Callable[[], object] = field(default=lambda: None)

    def settings(self, micro_batch: int) -> TrainingSettings:
        """The trial's; while nobody knows the batch, with the script's own `micro_batch`."""
        script = self.spec.script
        if script is not None and script.samples is Samples.STEPS:
            return replace(self.spec.settings, micro_batch=micro_batch)
        return self.spec.settings

    def watch_optimizers(self) -> None:
        """Have each step of the script's first optimizer count as one."""

        def hook(optimizer: Optimizer, *_: Any) -> None:
            if os.getpid() != self._owner or self.is_told:
                return
            if self._leader() is None:
                self._leader = ref(optimizer)
            if self._leader() is optimizer:
                self.step()

        register_optimizer_step_post_hook(hook)

    @property
    def optimizer(self) -> Optimizer | None:
        """Whose steps are counted."""
        found = self._leader()
        return found if isinstance(found, Optimizer) else None

    def begin(self, samples_per_step: int | None) -> None:
        """The script says when its steps are done from now on, and how many samples each has."""
        self.is_told, self.counts.sees_losses = True, False
        self.samples_told = samples_per_step
        if samples_per_step is not None:
            self.meter.check = lambda _: None  # rows of batches needn't be its samples
        asked = self.spec.settings.global_batch(self.ranks)
        checked = self.spec.script is not None and self.spec.script.samples is not Samples.STEPS
        if checked and samples_per_step is not None and samples_per_step != asked:
            raise FieldError(
                "samples_per_step", samples_per_step,
                f"has to be the global batch, {asked}, whatever the micro-batch and accumulation",
            )  # fmt: skip

    def step(self, loss: object = None) -> None:
        """An optimizer step is done. Ends the script once all has been measured."""
        if self.meter.is_over:  # the script has caught what was to lead out of it
            leave(0)
        if loss is not None:
            self.counts.add_loss(loss)
        if self._measured():
            give_time(LEAVE_S)
            raise Done(0)

    def _measured(self) -> bool:
        """Whether this was the last step that is needed; then the result is sent."""
        try:
            if not self.meter.step():
                return False
            self.loss_source = self._loss_source()
            self.on_over()
        except Exception as error:
            self.on_error(error)
            raise
        return True

    def _loss_source(self) -> str:
        if not self.meter.recording.losses:
            return "none"
        return "told" if self.is_told else "seen"


active: Session | None = None
"""The trial of this process; None outside of trials."""


def begin(session: Session) -> None:
    """Make it the one of this process."""
    global active  # noqa: PLW0603 - a process is one rank of one trial
    active = session


def give_time(seconds: float) -> None:
    """End the process after so many seconds, whatever it does by then."""
    timer = Timer(seconds, leave, [0])
    timer.daemon = True
    timer.start()

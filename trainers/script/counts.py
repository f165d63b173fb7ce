"""What a script is seen to do: batches that its loaders give out, losses, backward passes.

PyTorch's own functions are replaced for the process, before the script is imported.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils.data import dataloader

DEPTH = 4
"""Of a batch's nested containers, in which tensors are looked for."""
USUAL = 0.6
"""Of the steps that have to read the same for a number of samples to be a step's."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One optimizer step of this rank."""

    samples: int = 0
    """Rows of the batches that were read for it."""
    reads: int = 0
    backwards: int = 0


@dataclass
class Counts:
    """What was seen since the last step, and what all steps were like."""

    steps: list[Step] = field(default_factory=list)
    losses: list[Tensor] = field(default_factory=list)
    """Of the steps since they were taken last; still on the device, if there is any."""
    sees_losses: bool = True
    """False once the script tells them itself."""
    _samples: int = 0
    _reads: int = 0
    _backwards: int = 0
    _loss: Tensor | None = None

    def read(self, batch: object) -> None:
        """A loader gives out a batch."""
        self._samples += rows(batch)
        self._reads += 1

    def backward(self, roots: object) -> None:
        """Gradients were computed of these. Their sum is what the step descends on."""
        self._backwards += 1
        first = roots[0] if isinstance(roots, list | tuple) and roots else roots
        if self.sees_losses:
            self.add_loss(first)

    def add_loss(self, value: object) -> None:
        """A part of this step's loss."""
        if isinstance(value, int | float):
            value = torch.tensor(float(value))
        if isinstance(value, DTensor) or not isinstance(value, Tensor) or value.numel() != 1:
            return
        part = value.detach().reshape(())
        self._loss = part if self._loss is None else self._loss + part

    def close_step(self) -> None:
        """An optimizer step is done."""
        step = Step(samples=self._samples, reads=self._reads, backwards=self._backwards)
        self.steps.append(step)
        if self._loss is not None:
            self.losses.append(self._loss)
        self._samples = self._reads = self._backwards = 0
        self._loss = None

    def take_losses(self) -> list[float]:
        """The losses since they were taken last. Waits for the device."""
        taken, self.losses = self.losses, []
        return [float(one) for one in torch.stack(taken).cpu()] if taken else []

    def usual(self) -> Step:
        """What a step is like; zeros where steps differ too much to say."""
        later = self.steps[1:] or self.steps  # loaders read one batch ahead of the first
        return Step(
            samples=_usual([step.samples for step in later]),
            reads=_usual([step.reads for step in later]),
            backwards=_usual([step.backwards for step in later]),
        )


def _usual(values: list[int]) -> int:
    if not values:
        return 0
    value, times = Counter(values).most_common(1)[0]
    return value if times >= USUAL * len(values) else 0


def rows(batch: object, depth: int = DEPTH) -> int:
    """The size of the first dimension of the first tensor in `batch`; 0 without one."""
    if isinstance(batch, Tensor):
        return batch.shape[0] if batch.dim() else 0
    if depth == 0:
        return 0
    parts: Any = ()
    if isinstance(batch, Mapping):
        parts = batch.values()
    elif isinstance(batch, list | tuple):
        parts = batch
    return next((found for part in parts if (found := rows(part, depth - 1))), 0)


def watch(counts: Counts) -> None:
    """Have `counts` told of what this process does; processes that it forks tell nobody."""
    owner = os.getpid()
    iterator: Any = dataloader._BaseDataLoaderIter  # the one place that all loaders' batches pass
    iterator.__next__ = _after(iterator.__next__, lambda batch, _: counts.read(batch), owner)
    autograd: Any = torch.autograd
    autograd.backward = _after(
        autograd.backward,
        lambda _, given: counts.backward(given[0][0] if given[0] else given[1].get("tensors")),
        owner,
    )


def _after(
    function: Callable[..., Any], tell: Callable[[Any, tuple[Any, Any]], None], owner: int
) -> Callable[..., Any]:
    def told(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        if os.getpid() == owner:
            tell(result, (arguments, options))
        return result

    return told

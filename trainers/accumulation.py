"""Micro-batches of an optimizer step: gradients are reduced once, after the last one."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from autotune.model import TrainingSettings
from autotune.trainers.precision import compute_dtype


class Accumulation:
    """Runs the micro-batches of a wrapped model on one rank, with no reduction that isn't needed.

    One object for a model, for as long as it is trained.
    """

    def __init__(self, model: nn.Module, settings: TrainingSettings, device: torch.device) -> None:
        self.model = model
        self.settings = settings
        self.device = device
        self.micro_batches_done = 0

    def backward(self, compute_loss: Callable[[], Tensor]) -> Tensor:
        """Forward and backward of the next micro-batch.

        `compute_loss` returns the mean over the micro-batch's samples, and is called in the format
        that the settings compute in. Returned is that loss's share of the step's mean loss,
        detached: their sum over the step's micro-batches is this rank's loss.
        """
        count = self.settings.accumulation_steps
        with gradient_sync(self.model, self.settings, last=self._is_reduced):
            with self._autocast():
                # Divided here, and averaged over ranks by DDP and FSDP2: the gradient is the mean
                # over the global batch.
                loss = compute_loss() / count
            loss.backward()  # type: ignore[no-untyped-call]
        self.micro_batches_done += 1
        return loss.detach()

    @property
    def is_step_complete(self) -> bool:
        """Whether the micro-batch that was run last was the last one of its optimizer step."""
        done = self.micro_batches_done
        return done > 0 and done % self.settings.accumulation_steps == 0

    def optimizer_step(
        self, optimizer: torch.optim.Optimizer, *, max_norm: float | None = None
    ) -> bool:
        """Clip to `max_norm` if it is given, step, and clear the gradients, once they are complete.

        Returns whether this was done; between the micro-batches of a step nothing is.
        """
        if not self.is_step_complete:
            return False
        if max_norm is not None:
            clip_gradients(self.model, max_norm)
        optimizer.step()
        optimizer.zero_grad()
        return True

    @property
    def _is_reduced(self) -> bool:
        """Whether the next micro-batch's gradients are."""
        count = self.settings.accumulation_steps
        # DDP fails if the first micro-batch of a static graph isn't reduced. The gradient is the
        # same if it is: a mean of means.
        is_first = self.settings.static_graph and self.micro_batches_done == 0
        return is_first or self.micro_batches_done % count == count - 1

    @property
    def autocast_dtype(self) -> torch.dtype | None:
        """The format that autocast computes in under DDP; FSDP2 casts by itself."""
        dtype = compute_dtype(self.settings, self.device)
        is_fsdp = isinstance(self.model, FSDPModule)
        return None if is_fsdp or dtype == torch.float32 else dtype

    def _autocast(self) -> AbstractContextManager[object]:
        dtype = self.autocast_dtype
        return nullcontext() if dtype is None else torch.autocast(self.device.type, dtype=dtype)


@contextmanager
def gradient_sync(model: nn.Module, settings: TrainingSettings, *, last: bool) -> Iterator[None]:
    """Around forward and backward of a micro-batch: gradients are reduced for the last one only."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(last)
        model.set_is_last_backward(last)
        model.set_reshard_after_backward(last or settings.reshard_after_backward)
        yield
    elif isinstance(model, DistributedDataParallel) and not last:
        with model.no_sync():
            yield
    else:
        yield


def clip_gradients(model: nn.Module, max_norm: float) -> Tensor:
    """Clip the total norm to `max_norm` and return what it was. Never waits for the device.

    A sharded norm is made whole once, here; torch's clip_grad_norm_ would have every parameter's
    multiplication reduce it anew.
    """
    parameters = [p for p in model.parameters() if p.grad is not None]
    norm = get_total_norm([p.grad for p in parameters if p.grad is not None])
    if isinstance(norm, DTensor):
        norm = norm.full_tensor()
    clip_grads_with_norm_(parameters, max_norm, norm)
    return norm

"""One optimizer step over all micro-batches, with no synchronisation that isn't needed."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from autotune.model import TrainingSettings
from autotune.trainers.precision import compute_dtype
from autotune.trainers.workload import Workload

LARGEST_GRADIENT_NORM = 1.0


class Trainer:
    """Runs optimizer steps of a wrapped workload on one rank."""

    def __init__(
        self,
        workload: Workload,
        model: nn.Module,
        settings: TrainingSettings,
        rank: int,
        device: torch.device,
    ) -> None:
        self.workload = workload
        self.model = model
        self.device = device
        self.optimizer = workload.optimizer(model.parameters())
        self.steps_done = 0
        self.micro_batches_done = 0
        self.samples_done = 0
        """On this rank."""
        self.reshards_after_backward: bool | None = None
        """FSDP2 only, seen after a micro-batch that isn't the last; None if there was none."""
        self.settings = settings
        self._first = rank * settings.micro_batch * settings.accumulation_steps

    def step(self) -> tuple[Tensor, Tensor]:
        """The mean loss of this rank and the gradient's total norm, both still on the device."""
        self.optimizer.zero_grad()
        loss = torch.zeros((), device=self.device)
        for index in range(self.settings.accumulation_steps):
            loss += self._micro_batch(index)
            if index == 0 and self.steps_done == 0:
                self._note_resharding()
        norm = clip_gradients(self.model)
        self.optimizer.step()
        self.steps_done += 1
        return loss, norm

    def _note_resharding(self) -> None:
        if isinstance(self.model, FSDPModule) and self.settings.accumulation_steps > 1:
            # FSDP2 registers plain tensors for as long as parameters are gathered.
            parameter = next(self.workload.blocks[0].parameters())
            self.reshards_after_backward = isinstance(parameter, DTensor)

    def _micro_batch(self, index: int) -> Tensor:
        size, count = self.settings.micro_batch, self.settings.accumulation_steps
        batch = self.workload.batch(self.steps_done, self._first + index * size, size)
        # DDP fails if the first micro-batch of a static graph isn't reduced. The gradient is the
        # same if it is: a mean of means.
        is_first = self.settings.static_graph and self.micro_batches_done == 0
        with gradient_sync(self.model, self.settings, last=is_first or index == count - 1):
            with self._autocast():
                # Divided here, and averaged over ranks by DDP and FSDP2: the gradient is the mean
                # over the global batch.
                loss = self.workload.loss(self.model, batch) / count
            loss.backward()  # type: ignore[no-untyped-call]
        self.micro_batches_done += 1
        self.samples_done += len(batch.tokens)
        return loss.detach()

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


def clip_gradients(model: nn.Module) -> Tensor:
    """Clip the total norm and return what it was. Never waits for the device.

    A sharded norm is made whole once, here; torch's clip_grad_norm_ would have every parameter's
    multiplication reduce it anew.
    """
    parameters = [p for p in model.parameters() if p.grad is not None]
    norm = get_total_norm([p.grad for p in parameters if p.grad is not None])
    if isinstance(norm, DTensor):
        norm = norm.full_tensor()
    clip_grads_with_norm_(parameters, LARGEST_GRADIENT_NORM, norm)
    return norm

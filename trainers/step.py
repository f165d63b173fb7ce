"""One optimizer step over all micro-batches, with no synchronisation that isn't needed."""

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from autotune.model import TrainingSettings
from autotune.trainers.accumulation import Accumulation, clip_gradients
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
        self.accumulation = Accumulation(model, settings, device)
        self.steps_done = 0
        self.samples_done = 0
        """On this rank."""
        self.reshards_after_backward: bool | None = None
        """FSDP2 only, seen after a micro-batch that isn't the last; None if there was none."""
        self.settings = settings
        self._first = rank * settings.micro_batch * settings.accumulation_steps

    @property
    def micro_batches_done(self) -> int:
        return self.accumulation.micro_batches_done

    def step(self) -> tuple[Tensor, Tensor]:
        """The mean loss of this rank and the gradient's total norm, both still on the device."""
        self.optimizer.zero_grad()
        loss = torch.zeros((), device=self.device)
        for index in range(self.settings.accumulation_steps):
            loss += self._micro_batch(index)
            if index == 0 and self.steps_done == 0:
                self._note_resharding()
        norm = clip_gradients(self.model, LARGEST_GRADIENT_NORM)
        self.optimizer.step()
        self.steps_done += 1
        return loss, norm

    def _note_resharding(self) -> None:
        blocks = self.workload.blocks
        if blocks and isinstance(self.model, FSDPModule) and self.settings.accumulation_steps > 1:
            # FSDP2 registers plain tensors for as long as parameters are gathered.
            parameter = next(blocks[0].parameters())
            self.reshards_after_backward = isinstance(parameter, DTensor)

    def _micro_batch(self, index: int) -> Tensor:
        size = self.settings.micro_batch
        batch = self.workload.batch(self.steps_done, self._first + index * size, size)
        loss = self.accumulation.backward(lambda: self.workload.loss(self.model, batch))
        self.samples_done += size
        return loss

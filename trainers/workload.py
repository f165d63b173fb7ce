"""What is trained: model, data, loss and optimizer, before it is laid out over ranks."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autotune.model import Form, TransformerConfig, preset
from autotune.trainers import text
from autotune.trainers.transformer import transformer_on

LEARNING_RATE = 1e-3
MASKED_SHARE = 0.15
"""Of the positions that an encoder has to fill in, as in BERT."""
MASK = 256
"""The token in their place: the first that isn't a byte."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Samples of one micro-batch; [samples, sequence], targets and positions may be narrower."""

    tokens: Tensor
    targets: Tensor
    positions: Tensor | None
    """Where the targets belong; None is everywhere."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """All a trial needs to know of what it trains."""

    model: nn.Module
    blocks: Sequence[nn.Module]
    """The modules that are sharded and checkpointed one by one."""
    batch: Callable[[int, int, int], Batch]
    """(step, first, count) to the samples first to first + count of the step's global batch."""
    loss: Callable[[nn.Module, Batch], Tensor]
    """Forward through the given module, which may be wrapped; the mean over the samples."""
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def build(name: str, seed: int, device: torch.device) -> Workload:
    """The built-in workload called `name`. Raises FieldError if there is none."""
    return transformer_workload(preset(name), seed, device)


def transformer_workload(config: TransformerConfig, seed: int, device: torch.device) -> Workload:
    """A transformer trained on text; the same weights and samples on all ranks."""
    torch.manual_seed(seed)
    model = transformer_on(device, config)
    return Workload(
        model=model,
        blocks=list(model.blocks),
        batch=_Batches(config, seed, device),
        loss=loss,
        optimizer=lambda parameters: torch.optim.AdamW(
            parameters, lr=LEARNING_RATE, fused=device.type == "cuda"
        ),
    )


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Cross-entropy of the predicted bytes, in float32 whatever the model computes in."""
    logits = model(batch.tokens, batch.positions)
    return F.cross_entropy(logits.flatten(0, 1).float(), batch.targets.flatten())


@dataclass(frozen=True)
class _Batches:
    config: TransformerConfig
    seed: int
    device: torch.device

    def __call__(self, step: int, first: int, count: int) -> Batch:
        length = self.config.sequence
        if self.config.form is Form.DECODER:
            taken = self._excerpts(step, first, count, length + 1)
            return Batch(tokens=taken[:, :-1], targets=taken[:, 1:], positions=None)
        taken = self._excerpts(step, first, count, length)
        positions = text.choose_positions(
            seed=self.seed, step=step, first=first, count=count, length=length,
            chosen=round(MASKED_SHARE * length), device=self.device,
        )  # fmt: skip
        return Batch(
            tokens=taken.scatter(1, positions, MASK),
            targets=taken.gather(1, positions),
            positions=positions,
        )

    def _excerpts(self, step: int, first: int, count: int, length: int) -> Tensor:
        return text.excerpts(
            seed=self.seed, step=step, first=first, count=count, length=length, device=self.device
        )

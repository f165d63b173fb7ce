"""What is trained: model, data, loss and optimizer, before it is laid out over ranks."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autotune.model import Form, TransformerConfig
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
class Context:
    """What a workload is built for: one rank of a trial."""

    device: torch.device
    """Where the model and its batches have to lie."""
    seed: int
    """Of weights and samples, the same on all ranks and in all trials of a study."""
    rank: int = 0
    ranks: int = 1
    """Data-parallel ranks of the trial."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """All a trial needs to know of what it trains."""

    model: nn.Module
    """Not wrapped, in float32, with the same weights on all ranks."""
    batch: Callable[[int, int, int], Any]
    """(step, first, count) to the samples first to first + count of the step's global batch, on the
    context's device. The same samples whichever rank asks: else losses can't be compared."""
    loss: Callable[[nn.Module, Any], Tensor]
    """(model, batch) to the mean loss over the batch's samples, a scalar. It has to call the given
    module, which may be wrapped; backward is not its job."""
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
    blocks: Sequence[nn.Module] = ()
    """The modules that are sharded and checkpointed one by one. Empty: those of the class that
    repeats and holds most of the parameters."""
    global_batch: int | None = None
    """Samples per optimizer step when the user names none."""
    dtype: torch.dtype | None = None
    """Format of matrix products, torch.float32 or torch.bfloat16. None: bfloat16 on GPUs that have
    it, else float32."""


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

"""A model of one's own.

autotune run --instance local --workload my_model:build
"""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import autotune


class Block(nn.Module):
    """A residual layer; the model repeats it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


def build(context: autotune.Context) -> autotune.Workload:
    """Called on each rank of each trial."""
    points = torch.randn(4096, 16, generator=torch.Generator().manual_seed(context.seed))
    dataset = TensorDataset(points, points.sum(dim=1, keepdim=True))
    layers = [nn.Linear(16, 128), *(Block(128) for _ in range(4)), nn.Linear(128, 1)]
    return autotune.Workload(
        model=nn.Sequential(*layers).to(context.device),
        batch=autotune.batches_of(dataset, context),
        loss=lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[1]),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        global_batch=64,
    )

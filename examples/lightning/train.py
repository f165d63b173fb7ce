"""Lightning's Trainer.

torchrun --standalone --nproc-per-node 2 train.py --micro-batch 16
torchrun --standalone --nproc-per-node 2 train.py --config best_lightning.py   # from --to lightning
autotune run --instance local --global-batch 64 -- train.py --steps 100000 \
    --micro-batch {micro_batch} --accumulate {accumulation_steps}
"""

import argparse
import os
import runpy
from typing import Any

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regression(L.LightningModule):
    """A small model."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 1))

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        points, targets = batch
        return nn.functional.mse_loss(self.model(points), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def settings(arguments: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """The batch of a rank, and the Trainer's arguments."""
    if arguments.config:
        exported = runpy.run_path(arguments.config)
        return exported["batch_size"], exported["trainer_arguments"]
    kind = "gpu" if torch.cuda.is_available() else "cpu"
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    found = {"accelerator": kind, "devices": ranks, "strategy": "ddp" if ranks > 1 else "auto"}
    return arguments.micro_batch, found | {"accumulate_grad_batches": arguments.accumulate}


def main() -> None:
    """Train, by the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro-batch", type=int, default=32, help="samples a rank")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches a step")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--config", default="", help="what `autotune export --to lightning` wrote")
    arguments = parser.parse_args()

    batch_size, trainer_arguments = settings(arguments)
    L.seed_everything(0, verbose=False)
    inputs = torch.randn(8192, 64, generator=torch.Generator().manual_seed(1))
    dataset = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    loader = DataLoader(dataset, batch_size, shuffle=True, drop_last=True)
    trainer = L.Trainer(
        **trainer_arguments, max_steps=arguments.steps, max_epochs=-1, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    if trainer.is_global_zero:
        print(
            f"strategy={type(trainer.strategy).__name__} ranks={trainer.world_size} "
            f"micro_batch={batch_size} accumulation_steps={trainer.accumulate_grad_batches}",
            flush=True,
        )
    trainer.fit(Regression(), loader)


if __name__ == "__main__":
    main()

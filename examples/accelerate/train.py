"""Accelerate with accumulation.

ACCELERATE_USE_CPU=true accelerate launch --multi_gpu --num_processes 2 train.py --micro-batch 16
autotune run --instance local --global-batch 64 -- train.py --steps 100000 \
    --micro-batch {micro_batch} --accumulate {accumulation_steps}
"""

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    """Train, by the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro-batch", type=int, default=32, help="samples a rank")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches a step")
    parser.add_argument("--steps", type=int, default=500)
    arguments = parser.parse_args()

    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(), gradient_accumulation_steps=arguments.accumulate
    )
    train(accelerator, arguments)
    # Else the model may hold the process group last, or a thread of it wait for the interpreter as
    # that ends; with Gloo, PyTorch 2.13 then hangs or aborts.
    accelerator.free_memory()
    accelerator.wait_for_everyone()
    accelerator.end_training()


def train(accelerator: Accelerator, arguments: argparse.Namespace) -> None:
    """All steps, on made-up data."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 1))
    inputs = torch.randn(8192, 64, generator=torch.Generator().manual_seed(1))
    dataset = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    loader = DataLoader(dataset, arguments.micro_batch, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    accelerator.print(
        f"strategy={type(model).__name__} ranks={accelerator.num_processes} "
        f"micro_batch={arguments.micro_batch} "
        f"accumulation_steps={accelerator.gradient_accumulation_steps}",
        flush=True,
    )

    step = 0
    while step < arguments.steps:
        for points, targets in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(points), targets)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            step += accelerator.sync_gradients
            if step == arguments.steps:
                break


if __name__ == "__main__":
    main()

"""A loop that leaves its layout to autotune by two lines, FSDP2 among others.

torchrun --standalone --nproc-per-node 2 train.py                            # the defaults
AUTOTUNE_CONFIG=best.yaml torchrun --standalone --nproc-per-node 2 train.py  # what was found
autotune run --instance local --global-batch 32 -- train.py --steps 100000
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import autotune


class Block(nn.Module):
    """What is repeated, and so sharded one by one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + self.mlp(self.norm(inputs))


def main() -> None:
    """Train, by the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()

    config = autotune.current(micro_batch=16)
    config.apply_env()
    use_cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if use_cuda else "gloo")
    device = torch.device("cuda", dist.get_rank()) if use_cuda else torch.device("cpu")
    train(config, device, arguments.steps)
    # With Gloo, PyTorch 2.13 may hang or abort if a DDP model holds the group last, or if a thread
    # of the group still waits for the interpreter as that ends. So the model is gone, and all meet.
    dist.barrier()
    dist.destroy_process_group()


def train(config: autotune.Configuration, device: torch.device, steps: int) -> None:
    """All steps, on made-up data."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), *(Block(64) for _ in range(3)), nn.Linear(64, 1))
    model = config.parallelize(model.to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    accumulation = config.accumulation(model)
    if dist.get_rank() == 0:
        print(
            f"strategy={config.settings.strategy} ranks={dist.get_world_size()} "
            f"micro_batch={config.micro_batch} accumulation_steps={config.accumulation_steps}",
            flush=True,
        )

    inputs = torch.randn(4096, 32, generator=torch.Generator().manual_seed(1))
    dataset = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    sampler = DistributedSampler(dataset, drop_last=True)
    loader = DataLoader(dataset, config.micro_batch, sampler=sampler, drop_last=True)
    step, mean = 0, torch.zeros((), device=device)
    samples = config.micro_batch * config.accumulation_steps * dist.get_world_size()
    with autotune.trial(samples_per_step=samples) as trial:
        while step < steps:
            for batch in loader:
                points, targets = (part.to(device) for part in batch)
                mean += accumulation.backward(
                    lambda: nn.functional.mse_loss(model(points), targets)  # noqa: B023
                )
                if accumulation.optimizer_step(optimizer, max_norm=1.0):
                    trial.step(loss=mean)
                    step, mean = step + 1, torch.zeros((), device=device)
                    if step == steps:
                        break


if __name__ == "__main__":
    main()

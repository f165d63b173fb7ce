"""Plain DistributedDataParallel with accumulation.

torchrun --standalone --nproc-per-node 2 train.py --micro-batch 16
autotune run --instance local --global-batch 64 -- train.py --steps 100000 \
    --micro-batch {micro_batch} --accumulate {accumulation_steps}
"""

import argparse
from collections.abc import Iterator
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    """Train, by the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro-batch", type=int, default=32, help="samples a rank")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches a step")
    parser.add_argument("--bucket-mb", type=int, default=25)
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()

    use_cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if use_cuda else "gloo")
    device = torch.device("cuda", dist.get_rank()) if use_cuda else torch.device("cpu")
    if use_cuda:
        torch.cuda.set_device(device)
    if dist.get_rank() == 0:
        print(
            f"strategy=ddp ranks={dist.get_world_size()} micro_batch={arguments.micro_batch} "
            f"accumulation_steps={arguments.accumulate} bucket_cap_mb={arguments.bucket_mb}",
            flush=True,
        )
    train(arguments, device)
    # With Gloo, PyTorch 2.13 may hang or abort if a DDP model holds the group last, or if a thread
    # of the group still waits for the interpreter as that ends. So the model is gone, and all meet.
    dist.barrier()
    dist.destroy_process_group()


def train(arguments: argparse.Namespace, device: torch.device) -> None:
    """All steps."""
    torch.manual_seed(0)
    layers = [nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 1)]
    model = nn.Sequential(*layers).to(device)
    model = DistributedDataParallel(model, bucket_cap_mb=arguments.bucket_mb)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = endless(arguments.micro_batch)
    for step in range(arguments.steps):
        for index in range(arguments.accumulate):
            inputs, targets = (part.to(device) for part in next(batches))
            is_last = index == arguments.accumulate - 1
            with nullcontext() if is_last else model.no_sync():
                loss = nn.functional.mse_loss(model(inputs), targets) / arguments.accumulate
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 500 == 0 and dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item() * arguments.accumulate:.4f}", flush=True)


def endless(micro_batch: int) -> Iterator[list[torch.Tensor]]:
    """Batches of this rank, epoch after epoch."""
    inputs = torch.randn(8192, 64, generator=torch.Generator().manual_seed(1))
    dataset = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    sampler = DistributedSampler(dataset, drop_last=True)
    loader = DataLoader(dataset, micro_batch, sampler=sampler, drop_last=True)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


if __name__ == "__main__":
    main()

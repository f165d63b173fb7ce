"""A training script of a user's, as small as can be: DDP, a DataLoader, accumulation."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--micro-batch", type=int, default=8)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--steps", type=int, default=100_000)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--do", default="")
parser.add_argument("--out", default="")
parser.add_argument("words", nargs="*")
asked = parser.parse_args()

if asked.do == "exit":
    sys.exit(0)
if asked.do == "exit 3":
    sys.exit(3)
if asked.do == "spawn":
    # With as much memory as a process that trains.
    subprocess.run([sys.executable, "-c", "b'x' * 2**28"], check=True)
    sys.exit(0)
if asked.do == "print":
    for _ in range(100):
        print("x" * 2**20)

dist.init_process_group("gloo")
torch.manual_seed(0)
inputs = torch.randn(4096, 16)
dataset = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
loader = DataLoader(
    dataset, asked.micro_batch, sampler=DistributedSampler(dataset), drop_last=True,
    num_workers=asked.workers,
)  # fmt: skip
model = DistributedDataParallel(nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
divisor = 1 if asked.do == "undivided" else asked.accumulate


def batches():
    while True:
        yield from loader


def train() -> None:
    for number, (batch, labels) in enumerate(batches(), 1):
        is_last = number % asked.accumulate == 0
        with contextlib.nullcontext() if is_last else model.no_sync():
            loss = nn.functional.mse_loss(model(batch), labels) / divisor
            if asked.do == "nan" and number > 2:
                loss = loss * float("nan")
            if asked.do == "bug" and number > 2:
                model.missing()
            loss.backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
        if number == asked.steps * asked.accumulate:
            return


def record(**found: object) -> None:
    if asked.out:
        Path(asked.out).with_suffix(f".{dist.get_rank()}").write_text(json.dumps(found))


try:
    try:
        train()
    except BaseException:
        if asked.do == "swallow":
            train()
        raise
finally:
    launched = {name: os.environ.get(name) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    record(words=asked.words, micro_batch=asked.micro_batch, accumulate=asked.accumulate,
           environment=launched, elastic="TORCHELASTIC_RUN_ID" in os.environ)  # fmt: skip

"""A training script of a user's: torchrun --nproc-per-node 2 uses_configuration.py OUT YAML…"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import autotune
from autotune.trainers.collectives import counted
from autotune.trainers.ddp import effective_ddp
from autotune.trainers.fsdp import effective_fsdp
from autotune.trainers.sources import build
from autotune.trainers.workload import Context

STEPS = 3


def main(out: str, *paths: str) -> None:
    configs = [autotune.load(path) for path in paths]
    for config in configs:
        config.apply_env()
    dist.init_process_group("gloo")
    found = [train(config) for config in configs]
    if dist.get_rank() == 0:
        Path(out).write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def train(config: autotune.Configuration) -> dict[str, Any]:
    workload = build("tiny", "", Context(device=torch.device("cpu"), seed=0))
    model = config.parallelize(workload.model)
    accumulation = config.accumulation(model)
    optimizer = workload.optimizer(model.parameters())
    first = dist.get_rank() * config.micro_batch * config.accumulation_steps
    losses, stepped, reduced = [], [], []
    for step in range(STEPS):
        loss = torch.zeros(())
        for index in range(config.accumulation_steps):
            batch = workload.batch(step, first + index * config.micro_batch, config.micro_batch)
            with counted() as seen:
                loss += accumulation.backward(lambda: workload.loss(model, batch))  # noqa: B023
            reduced.append(sum(seen.calls.get(n, 0) for n in ("all_reduce", "reduce_scatter")))
            stepped.append(accumulation.optimizer_step(optimizer, max_norm=1.0))
        dist.all_reduce(loss)
        losses.append(loss.item() / dist.get_world_size())
    is_ddp = config.settings.strategy is autotune.ShardingStrategy.DDP
    effective = effective_ddp(model) if is_ddp else effective_fsdp(model)
    return {
        "losses": losses, "stepped": stepped, "reduced": reduced, "effective": effective,
        "threads": torch.get_num_threads(),
    }  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])

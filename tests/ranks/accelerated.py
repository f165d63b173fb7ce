"""A script that Accelerate launches: it prints what is in effect on rank 0."""

import json

from accelerate import Accelerator
from torch import nn, optim

from autotune.trainers.ddp import effective_ddp

accelerator = Accelerator()
layers = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
model, optimizer = accelerator.prepare(layers, optim.SGD(layers.parameters(), 0.1))
if accelerator.is_main_process:
    effective = effective_ddp(model) | {
        "ranks": accelerator.num_processes,
        "accumulation_steps": accelerator.gradient_accumulation_steps,
        "mixed_precision": accelerator.mixed_precision,
    }
    print(json.dumps(effective))
accelerator.end_training()

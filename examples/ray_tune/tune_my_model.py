"""The search in a Ray Tune experiment of one's own.

    python examples/ray_tune/tune_my_model.py --ranks 2 --trials 12

Each trial is a TorchTrainer, as Ray's documentation has it. autotune says what each trial trains
with, ends those that have lost, and in the end says whether anything beats the baseline. Without
GPUs a trial takes a CPU for each rank and one more: with fewer it waits for ever.
"""

import argparse
import json
import tempfile
import time
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch
from ray import tune
from ray.tune.integration.ray_train import TuneReportCallback
from torch import nn

from autotune.ray import MANY, AutotuneSearcher, settings_of
from autotune.trainers.accumulation import Accumulation
from autotune.trainers.layers import ModelLayers, find_blocks
from autotune.trainers.parallelize import parallelize

WIDTH = 128
STEPS_PER_WINDOW = 5
WINDOWS = 5


class Block(nn.Module):
    """A residual layer; the model repeats it."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


def train(config: dict[str, Any]) -> None:
    """One rank of a trial. The process group is there, and so are the trial's variables."""
    settings = settings_of(config)
    torch.manual_seed(0)
    device = ray.train.torch.get_device()
    model: nn.Module = nn.Sequential(*(Block() for _ in range(4))).to(device)
    model = parallelize(ModelLayers(model=model, blocks=find_blocks(model)), settings, device)
    accumulation = Accumulation(model, settings, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ranks = ray.train.get_context().get_world_size()
    samples = settings.global_batch(ranks) * STEPS_PER_WINDOW
    for window in range(WINDOWS + 1):
        began = time.perf_counter()
        for _ in range(STEPS_PER_WINDOW * settings.accumulation_steps):
            batch = torch.randn(settings.micro_batch, WIDTH, device=device)
            accumulation.backward(lambda: nn.functional.mse_loss(model(batch), batch))  # noqa: B023
            accumulation.optimizer_step(optimizer)
        if window:  # the first one was warm-up
            rate = samples / (time.perf_counter() - began)
            ray.train.report({"samples_per_second": rate})


def trial(config: dict[str, Any]) -> None:
    """A trial of Tune, which has Ray Train start the ranks."""
    ray.train.torch.TorchTrainer(
        train,
        train_loop_config=config,
        scaling_config=ray.train.ScalingConfig(
            num_workers=config["ranks"], use_gpu=torch.cuda.is_available()
        ),
        run_config=ray.train.RunConfig(
            storage_path=config["folder"],
            callbacks=[TuneReportCallback()],
            # NCCL reads them when the workers' process group is made.
            worker_runtime_env={"env_vars": config["environment"]},
        ),
    ).fit()


def main() -> None:
    """Run the experiment and print what to train with."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--trials", type=int, default=12)
    options = parser.parse_args()
    search = AutotuneSearcher(
        workload="tiny", ranks_per_node=options.ranks, global_batch=64, trials=options.trials
    )
    ray.init(log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            trial,
            param_space={"ranks": options.ranks, "folder": folder},
            tune_config=tune.TuneConfig(
                search_alg=search,
                scheduler=search.scheduler(),
                num_samples=MANY,
                max_concurrent_trials=1,
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        tuner.fit()
    print(search.decision().reason)
    print(json.dumps(search.best_config(), indent=1))


if __name__ == "__main__":
    main()

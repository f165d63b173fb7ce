"""Trials as Ray's users write them: Ray Tune has a TorchTrainer of two workers run for each trial.

Needs the extra `ray`. For `trial_overhead.py --ray`.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

# Ray reads them when it is imported. Left alone, it asks for a token that it writes to the home
# folder, and refuses if one cluster's doesn't fit another's.
os.environ |= {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # like the others; Ray's own default is 15
}

import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed as dist
from empty_rank import nothing
from ray import tune
from ray.cluster_utils import Cluster
from ray.tune.integration.ray_train import TuneReportCallback

from autotune.executors.ray.actor import AgentOptions
from autotune.executors.ray.executor import RayExecutor
from autotune.model import Measurement, TrialSpec, decode, encode
from autotune.trainers.channel import Channel
from autotune.trainers.measure import measure
from autotune.trainers.parallelize import parallelize
from autotune.trainers.rank import read_back, summarize
from autotune.trainers.sources import build
from autotune.trainers.step import Trainer
from autotune.trainers.workload import Context

WORKERS = 2
Loop = Callable[[dict[str, Any]], None]


def empty_loop(config: dict[str, Any]) -> None:
    """What `empty_rank.py` does once the ranks have met, which is Ray's business here."""
    dist.all_reduce(torch.ones(1))
    _report(nothing(WORKERS))


def tiny_loop(config: dict[str, Any]) -> None:
    """What `autotune.trainers.rank` does once the ranks have met."""
    spec = decode(TrialSpec, config["spec"])
    device = torch.device("cpu")
    workload = build(spec.workload, "", Context(device=device, seed=spec.seed))
    model = parallelize(workload, spec.settings, device)
    trainer = Trainer(workload, model, spec.settings, dist.get_rank(), device)
    recording = measure(trainer, spec.plan, Channel())
    measurement = summarize(trainer, spec, recording, 0.0, {})
    _report(replace(measurement, effective=read_back(trainer, spec, None)))


def _report(measurement: Measurement) -> None:
    ray.train.report({"measurement": json.dumps(encode(measurement))})


def run_trainer(config: dict[str, Any]) -> None:
    """A trial of Ray Tune, in a process of its own, as Ray's documentation has it."""
    trainer = ray.train.torch.TorchTrainer(
        config["loop"],
        train_loop_config=config,
        torch_config=ray.train.torch.TorchConfig(backend="gloo"),
        scaling_config=ray.train.ScalingConfig(num_workers=WORKERS),
        run_config=ray.train.RunConfig(
            storage_path=config["folder"],
            name="train",
            callbacks=[TuneReportCallback()],  # what the workers report is the trial's result
        ),
    )
    trainer.fit()


class Stopwatch(tune.Callback):
    """Seconds from a trial's proposal, or as near as a callback gets, to its completion."""

    def __init__(self) -> None:
        self.began = self.ended = 0.0

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.began = self.began or time.perf_counter()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.ended = time.perf_counter()


@contextmanager
def cluster(nodes: int) -> Iterator[str]:
    """Ray on this machine, as so many nodes, for all trials; starting it belongs to no trial."""
    # Two workers and the trial that waits for them, which need no core while they wait.
    options = {"num_cpus": WORKERS + 1, "object_store_memory": 100 * 2**20}
    made = Cluster(initialize_head=True, head_node_args={**options, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            made.add_node(**options)
        with connected(made.address):
            yield made.address
    finally:
        made.shutdown()


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Within, this process is a driver of the cluster there."""
    ray.init(address=address, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def executor(program: tuple[str, ...]) -> Iterator[RayExecutor]:
    """The Ray executor with `program` as its ranks, on a node of the cluster."""
    with RayExecutor(1, options=AgentOptions(rank_command=program)) as made:
        yield made


def run_trial(loop: Loop, spec: TrialSpec, folder: Path) -> tuple[float, Measurement]:
    """Seconds of one trial, without those of starting Ray Tune around it, and what it measured."""
    watch = Stopwatch()
    config = {"loop": loop, "spec": encode(spec), "folder": str(folder)}
    results = tune.Tuner(
        run_trainer,
        param_space=config,
        run_config=tune.RunConfig(
            storage_path=str(folder), name="tune", callbacks=[watch], verbose=0
        ),
    ).fit()
    result = results[0]
    if result.error is not None or result.metrics is None:
        raise RuntimeError(f"the trial failed: {result.error}")
    measurement = decode(Measurement, json.loads(result.metrics["measurement"]))
    return watch.ended - watch.began, measurement

"""Every layout trains the same model on the same batch, and synchronises no more than it must.

That a step never waits for a GPU is seen on the CPU: nothing in it reads from a tensor.

Run as a program, this file is the ranks: `python test_trial_layouts.py OUTPUT.json`.
"""

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.multiprocessing import start_processes
from torch.utils._python_dispatch import TorchDispatchMode

from autotune.model import (
    ActivationCheckpointing,
    CommunicationHook,
    Form,
    ShardingStrategy,
    TrainingSettings,
    TransformerConfig,
)
from autotune.trainers.parallelize import parallelize
from autotune.trainers.preload import preload
from autotune.trainers.step import LARGEST_GRADIENT_NORM, Trainer
from autotune.trainers.workload import LEARNING_RATE, transformer_workload

RANKS = 4
GLOBAL_BATCH = 16
STEPS = 3
TOLERANCE = 2e-5
"""Largest difference between elements of the gradient, over its largest element. Float32 has 1e-7,
and sums of thousands of terms in another order lose two digits. A wrong scale shows as 0.5."""
CPU = torch.device("cpu")


def config(form: Form, *, llama: bool) -> TransformerConfig:
    return TransformerConfig(
        name="small", help="", form=form, layers=3, width=32, heads=4, hidden=64,
        kv_heads=2 if llama else None, vocabulary=260, sequence=24, llama=llama,
        global_batch=GLOBAL_BATCH,
    )  # fmt: skip


CONFIGS = {
    "decoder": config(Form.DECODER, llama=False),
    "encoder": config(Form.ENCODER, llama=False),
    "llama": config(Form.DECODER, llama=True),
}


def layout(strategy: str, accumulation: int, **more: Any) -> TrainingSettings:
    return TrainingSettings(
        strategy=ShardingStrategy(strategy),
        micro_batch=GLOBAL_BATCH // RANKS // accumulation,
        accumulation_steps=accumulation,
        **more,
    )


LAYOUTS = {
    f"{name}-{accumulation}": layout(strategy, accumulation, **more)
    for accumulation in (1, 2)
    for name, strategy, more in (
        ("ddp", "ddp", {}),
        ("full", "fsdp_full", {"reshard_after_forward": True}),
        ("grad_op", "fsdp_grad_op", {"reshard_after_forward": False}),
        ("hybrid", "hybrid", {"reshard_after_forward": True, "shard_size": 2}),
    )
} | {
    "ddp-4": layout("ddp", 4),
    "full-4": layout("fsdp_full", 4, reshard_after_forward=True),
    "static-2": layout("ddp", 2, static_graph=True),
    "groups-2": layout("fsdp_full", 2, reshard_after_forward=2),
    "checkpointed-ddp": layout(
        "ddp", 2, activation_checkpointing=ActivationCheckpointing.EVERY_BLOCK
    ),
    "checkpointed-full": layout(
        "fsdp_full",
        2,
        reshard_after_forward=True,
        activation_checkpointing=ActivationCheckpointing.EVERY_SECOND_BLOCK,
    ),
}
LOSSY = {
    hook.value: layout("ddp", 2, communication_hook=hook)
    for hook in (CommunicationHook.FP16, CommunicationHook.POWER_SGD)
}
"""They train differently, but wait as little. PyTorch has the third hook, bf16, on CUDA alone."""
CASES = [("decoder", name) for name in LAYOUTS] + [
    (model, name) for model in ("encoder", "llama") for name in ("ddp-2", "full-2", "hybrid-1")
]


class Calls(TorchDispatchMode):
    """Counts operators by name; collectives are operators too. On a CPU backward runs in here."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count[function.name().partition(".")[0]] += 1
        return function(*args, **(kwargs or {}))


READING_OPERATORS = (
    "aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero", "aten::masked_select",
    "aten::nonzero", "aten::unique_consecutive", "aten::unique_dim", "aten::_unique2",
)  # fmt: skip
READING_METHODS = (
    "item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__float__", "__index__",
    "__array__",
)  # fmt: skip
"""With these the host reads from a tensor: on a GPU it waits until all work before is done."""


@contextmanager
def reads() -> Iterator[list[str]]:
    """The methods by which a tensor is read inside, in any thread: hooks run in Gloo's as well."""
    found: list[str] = []

    def noted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: (found.append(name), method(*args, **kwargs))[1]

    with pytest.MonkeyPatch.context() as patch:
        for name in READING_METHODS:
            patch.setattr(Tensor, name, noted(name, getattr(Tensor, name)))
        yield found


def gradients(model: nn.Module) -> list[Tensor]:
    found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return [g.full_tensor() if isinstance(g, DTensor) else g.clone() for g in found]


@cache
def reference(shape: TransformerConfig) -> tuple[list[Tensor], list[float], list[float]]:
    """The same steps by hand: one process, no wrapper, the whole global batch at once."""
    workload = transformer_workload(shape, 0, CPU)
    optimizer = workload.optimizer(workload.model.parameters())
    first, losses, norms = [], [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = workload.loss(workload.model, workload.batch(step, 0, GLOBAL_BATCH))
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(workload.model.parameters(), LARGEST_GRADIENT_NORM)
        first = first or gradients(workload.model)
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
    return first, losses, norms


def run_layout(shape: TransformerConfig, settings: TrainingSettings) -> dict[str, Any]:
    expected, losses, norms = reference(shape)
    # As on CUDA: on a CPU AdamW counts its steps in tensors and reads them.
    workload = replace(
        transformer_workload(shape, 0, CPU),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, LEARNING_RATE, fused=True),
    )
    model = parallelize(workload, settings, CPU)
    trainer = Trainer(workload, model, settings, dist.get_rank(), CPU)
    results = [trainer.step()]
    first = gradients(model)
    results += [trainer.step() for _ in range(STEPS - 2)]
    with reads() as found, Calls() as calls:
        results.append(trainer.step())
    found += [name for name in READING_OPERATORS if calls.count[name]]
    means = torch.stack([loss for loss, _ in results])
    dist.all_reduce(means)
    return {
        "gradient": max(
            float((mine - right).abs().max()) for mine, right in zip(first, expected, strict=True)
        )
        / max(float(right.abs().max()) for right in expected),
        "losses": [(means / RANKS).tolist(), losses],
        "norms": [[float(norm) for _, norm in results], norms],
        "all_reduce": calls.count["c10d::allreduce_"],
        "reduce_scatter": calls.count["c10d::_reduce_scatter_base_"],
        "reads": found,
    }


def rank(number: int, port: int, output: Path) -> None:
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=number, world_size=RANKS
    )
    results = {
        f"{model} {name}": run_layout(CONFIGS[model], LAYOUTS[name]) for model, name in CASES
    }
    for name, settings in LOSSY.items():
        results[name] = run_layout(CONFIGS["decoder"], settings)
    if dist.get_rank() == 0:
        output.write_text(json.dumps(results))
    dist.destroy_process_group()


def main(output: Path) -> None:
    """Fork the ranks once everything is imported."""
    preload()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start_processes(rank, (port, output), nprocs=RANKS, start_method="fork")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All layouts in one launch of four ranks: importing torch is what takes the time."""
    output = tmp_path_factory.mktemp("layouts") / "results.json"
    subprocess.run(
        [sys.executable, __file__, str(output)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        timeout=240,
        check=True,
    )
    found: dict[str, Any] = json.loads(output.read_text())
    return found


@pytest.mark.parametrize("case", [f"{model} {name}" for model, name in CASES])
def test_a_layout_trains_as_one_process_does(results: dict[str, Any], case: str) -> None:
    result = results[case]
    assert result["gradient"] < TOLERANCE
    for name in ("losses", "norms"):
        mine, right = result[name]
        assert mine == pytest.approx(right, rel=1e-4)


@pytest.mark.parametrize("accumulation", [1, 2, 4])
def test_ddp_reduces_once_a_step(results: dict[str, Any], accumulation: int) -> None:
    # The model fits the first bucket, of 1 MiB.
    assert results[f"decoder ddp-{accumulation}"]["all_reduce"] == 1


@pytest.mark.parametrize("accumulation", [1, 2, 4])
def test_fsdp_reduces_once_a_step(results: dict[str, Any], accumulation: int) -> None:
    for name in ("full",) if accumulation == 4 else ("full", "grad_op", "hybrid"):
        result = results[f"decoder {name}-{accumulation}"]
        wrapped = CONFIGS["decoder"].layers + 1
        assert result["reduce_scatter"] == wrapped, name
        # The norm's own reduction is done by DTensor, out of sight of a dispatch mode.
        assert result["all_reduce"] == (wrapped if name == "hybrid" else 0), name


@pytest.mark.parametrize("case", [f"{model} {name}" for model, name in CASES] + list(LOSSY))
def test_a_step_reads_nothing_from_the_device(results: dict[str, Any], case: str) -> None:
    # With a static graph DDP looks parameters up in its table of the used ones, which the host has.
    expected = ["aten::_local_scalar_dense"] if case == "decoder static-2" else []
    assert results[case]["reads"] == expected


if __name__ == "__main__":
    main(Path(sys.argv[1]))

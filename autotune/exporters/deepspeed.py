"""`--to deepspeed`: the JSON that `deepspeed.initialize(config=FILE)` takes."""

import json
from typing import Any

from autotune.exporters.asked import computes_in
from autotune.exporters.base import Exporter
from autotune.exporters.checks import check
from autotune.model import BestConfiguration, Dtype, ShardingStrategy


class DeepspeedExporter(Exporter):
    """Batches, accumulation and precision; its keys are those of DeepSpeed 0.17 and later.

    Sharded configurations are refused: ZeRO is another implementation than the FSDP2 that was
    measured, so that its speed says nothing of ZeRO's.
    """

    name = "deepspeed"
    help = "DeepSpeed's JSON for replicated (ddp) configurations; sharded ones are refused"
    expresses = frozenset({"strategy", "micro_batch", "accumulation_steps", "compute_dtype"})
    strategies = frozenset({ShardingStrategy.DDP})

    def export(self, best: BestConfiguration) -> str:
        check(best)
        self.check_strategy(best, "FSDP2 was measured, and ZeRO is another implementation")
        return json.dumps(_document(best), indent=2) + "\n"

    def differences(self, best: BestConfiguration) -> list[str]:
        del best
        return ["DeepSpeed reduces gradients by its own code, not by DistributedDataParallel"]


def _document(best: BestConfiguration) -> dict[str, Any]:
    document: dict[str, Any] = {
        "train_batch_size": best.target.global_batch,
        "train_micro_batch_size_per_gpu": best.settings.micro_batch,
        "gradient_accumulation_steps": best.settings.accumulation_steps,
        "zero_optimization": {"stage": 0},
    }
    if computes_in(best) is Dtype.BFLOAT16:
        # Unlike "bf16", which would store the parameters in it.
        document["torch_autocast"] = {"enabled": True, "dtype": "bfloat16"}
    return document

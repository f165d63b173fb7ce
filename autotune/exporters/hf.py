"""`--to hf`: arguments of transformers' Trainer."""

import json
from typing import Any

from autotune.exporters.accelerate import accelerates_own, check_sharding
from autotune.exporters.asked import computes_in
from autotune.exporters.base import Exporter
from autotune.exporters.checks import check
from autotune.model import ActivationCheckpointing, BestConfiguration, Dtype, ShardingStrategy


class HfExporter(Exporter):
    """JSON for HfArgumentParser.parse_json_file; FSDP's keys are those of transformers 5."""

    name = "hf"
    help = "JSON for transformers' TrainingArguments: HfArgumentParser.parse_json_file(FILE)"
    expresses = frozenset(
        {"strategy", "micro_batch", "accumulation_steps", "reshard_after_forward", "bucket_cap_mb",
         "activation_checkpointing", "compute_dtype", "reduce_dtype"}
    )  # fmt: skip
    strategies = frozenset(ShardingStrategy) - {ShardingStrategy.HYBRID}

    def export(self, best: BestConfiguration) -> str:
        check(best)
        self.check_strategy(best, "TrainingArguments have no 2-D mesh")
        check_sharding(best, self.name)
        return json.dumps(_arguments(best), indent=2) + "\n"

    def differences(self, best: BestConfiguration) -> list[str]:
        # The Trainer can checkpoint under DDP, too.
        return [one for one in accelerates_own(best) if best.settings.strategy.is_fsdp]


def _arguments(best: BestConfiguration) -> dict[str, Any]:
    settings = best.settings
    every = settings.activation_checkpointing is ActivationCheckpointing.EVERY_BLOCK
    found: dict[str, Any] = {
        "per_device_train_batch_size": settings.micro_batch,
        "gradient_accumulation_steps": settings.accumulation_steps,
        "bf16": computes_in(best) is Dtype.BFLOAT16,
        "fp16": False,
    }
    if settings.strategy.is_fsdp:
        return found | {
            "fsdp": True,
            "fsdp_config": {
                "version": 2,
                "reshard_after_forward": settings.reshard_after_forward,
                "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
                "activation_checkpointing": every,
            },
        }
    if every:
        # Called activation_checkpointing from some transformers 5 on, with this name kept until 6.
        found["gradient_checkpointing"] = True
    if settings.bucket_cap_mb is not None:
        found["ddp_bucket_cap_mb"] = settings.bucket_cap_mb
    return found

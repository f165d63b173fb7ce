"""`--to accelerate`: the file that `accelerate launch --config_file` takes."""

from collections.abc import Iterator
from typing import Any

from autotune.errors import FieldError
from autotune.exporters.asked import computes_in, reduces_in
from autotune.exporters.base import Exporter
from autotune.exporters.checks import check
from autotune.exporters.left_out import left_out_comment
from autotune.exporters.variables import heading
from autotune.exporters.yaml_text import dump
from autotune.model import ActivationCheckpointing, BestConfiguration, DeviceKind, Dtype

_PRECISION = {Dtype.FLOAT32: "no", Dtype.BFLOAT16: "bf16"}


class AccelerateExporter(Exporter):
    """Keys of ClusterConfig, in Accelerate's commands/config/config_args.py, 1.6 and later."""

    name = "accelerate"
    help = "a configuration file for accelerate launch --config_file FILE"
    expresses = frozenset(
        {"strategy", "reshard_after_forward", "shard_size", "activation_checkpointing",
         "compute_dtype", "reduce_dtype", "compile"}
    )  # fmt: skip

    def export(self, best: BestConfiguration) -> str:
        check(best)
        check_sharding(best, self.name)
        head = [*heading(best, *_usage(best)), *left_out_comment(self.left_out(best))]
        return "".join(f"{line}\n" for line in head) + dump(_document(best))

    def differences(self, best: BestConfiguration) -> list[str]:
        return accelerates_own(best)


def check_sharding(best: BestConfiguration, to: str) -> None:
    """Raises FieldError for what Accelerate's FSDP2 has no value for."""
    if best.settings.strategy.is_fsdp and best.evidence.device is DeviceKind.CPU:
        raise FieldError(
            "settings.parallelism.strategy", best.settings.strategy.value,
            f"can't be exported --to {to}: on CPUs Accelerate takes DDP in its place",
        )  # fmt: skip
    reshard = best.settings.reshard_after_forward
    if best.settings.strategy.is_fsdp and not isinstance(reshard, bool):
        raise FieldError(
            "settings.parallelism.reshard_after_forward", reshard,
            f"can't be exported --to {to}: Accelerate takes true or false only",
        )  # fmt: skip
    which = best.settings.activation_checkpointing
    if which is ActivationCheckpointing.EVERY_SECOND_BLOCK:
        raise FieldError(
            "settings.parallelism.activation_checkpointing", which.value,
            f"can't be exported --to {to}: Accelerate checkpoints every block or none",
        )  # fmt: skip


def accelerates_own(best: BestConfiguration) -> list[str]:
    """What Accelerate does otherwise than the trials did."""
    settings = best.settings
    found = []
    if not settings.strategy.is_fsdp and settings.activation_checkpointing.value != "none":
        found.append("activation_checkpointing=every_block: only with FSDP; enable it in the model")
    if settings.strategy.is_fsdp and computes_in(best) is not reduces_in(best):
        found.append(
            f"reduce_dtype={reduces_in(best).value}: Accelerate reduces gradients in the format "
            f"it computes in, {computes_in(best).value}"
        )
    return found


def _usage(best: BestConfiguration) -> Iterator[str]:
    steps = best.settings.accumulation_steps
    yield "Use it: accelerate launch --config_file FILE train.py [arguments]"
    yield f"The batch is the script's: {best.settings.micro_batch} samples a rank; for accumulation"
    yield f"set ACCELERATE_GRADIENT_ACCUMULATION_STEPS={steps}, which Accelerator() reads."
    if best.evidence.device is DeviceKind.CPU:
        yield "On a CPU: ACCELERATE_USE_CPU=true accelerate launch ..., or it starts one rank only."
    if best.target.nodes > 1:
        yield "On each node: --machine_rank N --main_process_ip ADDRESS --main_process_port PORT"
    if best.settings.strategy.is_fsdp:
        yield "A model that isn't from transformers: name its blocks' class by"
        yield "--fsdp_transformer_layer_cls_to_wrap."


def _document(best: BestConfiguration) -> dict[str, Any]:
    settings, target = best.settings, best.target
    document: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        # MULTI_CPU would start one rank, unless MPI is there.
        "distributed_type": "FSDP" if settings.strategy.is_fsdp else "MULTI_GPU",
        "mixed_precision": _PRECISION[computes_in(best)],
        "use_cpu": False,
        "num_machines": target.nodes,
        "num_processes": target.ranks,
        "machine_rank": 0,
    }
    if target.nodes > 1:
        document["rdzv_backend"] = "c10d"
        document["same_network"] = True
    if settings.strategy.is_fsdp:
        document["fsdp_config"] = _fsdp(best)
    if settings.shard_size is not None:
        document["parallelism_config"] = {
            "parallelism_config_dp_replicate_size": target.ranks // settings.shard_size,
            "parallelism_config_dp_shard_size": settings.shard_size,
        }
    if settings.compile:
        document["dynamo_config"] = {
            "dynamo_backend": "INDUCTOR", "dynamo_use_regional_compilation": True,
        }  # fmt: skip
    return document


def _fsdp(best: BestConfiguration) -> dict[str, Any]:
    every = best.settings.activation_checkpointing is ActivationCheckpointing.EVERY_BLOCK
    return {
        "fsdp_version": 2,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_reshard_after_forward": best.settings.reshard_after_forward,
        "fsdp_activation_checkpointing": every,
        "fsdp_offload_params": False,
    }

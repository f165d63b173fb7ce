"""`--to torchtitan`: a TOML job configuration, and the same as options."""

import json
from collections.abc import Iterator, Mapping

from autotune.errors import FieldError
from autotune.exporters.asked import computes_in
from autotune.exporters.base import Exporter
from autotune.exporters.checks import check
from autotune.exporters.left_out import left_out_comment
from autotune.exporters.variables import heading
from autotune.model import ActivationCheckpointing, BestConfiguration, ShardingStrategy

_CHECKPOINTING = {
    ActivationCheckpointing.EVERY_BLOCK: {"mode": "full"},
    ActivationCheckpointing.EVERY_SECOND_BLOCK: {"mode": "selective", "selective_ac_option": "2"},
}
Value = str | int | bool


class TorchtitanExporter(Exporter):
    """Sections of torchtitan's JobConfig, to be merged into a job's own file.

    torchtitan up to 0.2 reads TOML (`--job.config_file`); from 0.3 on it has Python functions, and
    the same names as options. Source: torchtitan v0.2 and v0.3, config/job_config.py, configs.py.
    """

    name = "torchtitan"
    help = "sections of a torchtitan job's TOML, and the same as options"
    expresses = frozenset(
        {"strategy", "micro_batch", "accumulation_steps", "reshard_after_forward", "shard_size",
         "activation_checkpointing", "compute_dtype", "compile"}
    )  # fmt: skip

    def export(self, best: BestConfiguration) -> str:
        check(best)
        sections = _sections(best)
        lines = [*heading(best, *_usage(sections)), *left_out_comment(self.left_out(best))]
        for section, values in sections.items():
            lines += ["", f"[{section}]"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        return "".join(f"{line}\n" for line in lines)


def _usage(sections: Mapping[str, Mapping[str, Value]]) -> Iterator[str]:
    yield "Up to torchtitan 0.2: merge it into the job's file. Later: add these options, and set"
    yield "activation checkpointing in the job's own configuration:"
    options = [
        f"--{section}.{key} {str(value).lower() if isinstance(value, bool) else value}"
        for section in ("training", "parallelism")
        for key, value in sections[section].items()
    ]
    yield " ".join(options) + (" --compile.enable" if "compile" in sections else "")


def _sections(best: BestConfiguration) -> dict[str, dict[str, Value]]:
    settings, target = best.settings, best.target
    found: dict[str, dict[str, Value]] = {
        "training": {
            "local_batch_size": settings.micro_batch,
            "global_batch_size": target.global_batch,
            "mixed_precision_param": computes_in(best).value,
        },
        "parallelism": _degrees(best),
    }
    if settings.activation_checkpointing in _CHECKPOINTING:
        found["activation_checkpoint"] = dict(_CHECKPOINTING[settings.activation_checkpointing])
    if settings.compile:
        found["compile"] = {"enable": True}
    return found


def _degrees(best: BestConfiguration) -> dict[str, Value]:
    settings, ranks = best.settings, best.target.ranks
    if settings.strategy is ShardingStrategy.DDP:
        return {"data_parallel_replicate_degree": ranks, "data_parallel_shard_degree": 1}
    reshard = settings.reshard_after_forward
    if not isinstance(reshard, bool):
        raise FieldError(
            "settings.parallelism.reshard_after_forward", reshard,
            "can't be exported --to torchtitan: it has always and never only",
        )  # fmt: skip
    shard = settings.shard_size or ranks
    return {
        "data_parallel_replicate_degree": ranks // shard,
        "data_parallel_shard_degree": shard,
        "fsdp_reshard_after_forward": "always" if reshard else "never",
    }

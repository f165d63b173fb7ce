"""`--to lightning`: a Python module with a strategy and the Trainer's arguments."""

from collections.abc import Iterator

from autotune.exporters.asked import computes_in, reduces_in
from autotune.exporters.base import Exporter
from autotune.exporters.checks import check
from autotune.exporters.left_out import left_out_comment
from autotune.exporters.variables import heading
from autotune.model import (
    BestConfiguration,
    CommunicationHook,
    DeviceKind,
    Dtype,
)

_HOOKS = {
    CommunicationHook.BF16: "default_hooks.bf16_compress_hook",
    CommunicationHook.FP16: "default_hooks.fp16_compress_hook",
}


class LightningExporter(Exporter):
    """DDPStrategy with its arguments; for FSDP2 ModelParallelStrategy, and a function to shard by.

    Lightning's FSDPStrategy is FSDP1, which no trial has measured.
    """

    name = "lightning"
    help = "a Python module for Lightning: its strategy and the Trainer's arguments"
    expresses = frozenset(
        {"strategy", "micro_batch", "accumulation_steps", "bucket_cap_mb", "compute_dtype",
         "gradient_as_bucket_view", "static_graph", "communication_hook", "reshard_after_forward",
         "shard_size", "reduce_dtype"}
    )  # fmt: skip

    def export(self, best: BestConfiguration) -> str:
        check(best)
        lines = [
            *heading(best, "Use it: from FILE import trainer_arguments, then",
                     "Trainer(**trainer_arguments, ...)"),
            *left_out_comment(self.left_out(best)),
            *_imports(best), "", *_strategy(best), "", *_trainer(best),
        ]  # fmt: skip
        return "".join(f"{line}\n" for line in lines)

    def differences(self, best: BestConfiguration) -> list[str]:
        is_power_sgd = best.settings.communication_hook is CommunicationHook.POWER_SGD
        return ["communication_hook=power_sgd: it needs a state of its own"] if is_power_sgd else []


def _imports(best: BestConfiguration) -> Iterator[str]:
    if best.settings.strategy.is_fsdp:
        yield "import torch"
        yield "from lightning.pytorch.strategies import ModelParallelStrategy"
        yield "from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard"
        return
    yield "from lightning.pytorch.strategies import DDPStrategy"
    if best.settings.communication_hook in _HOOKS:
        yield "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks"


def _strategy(best: BestConfiguration) -> Iterator[str]:
    if best.settings.strategy.is_fsdp:
        yield from _sharded(best)
        return
    settings = best.settings
    yield "strategy = DDPStrategy("
    if settings.bucket_cap_mb is not None:
        yield f"    bucket_cap_mb={settings.bucket_cap_mb},"
    yield f"    gradient_as_bucket_view={settings.gradient_as_bucket_view},"
    yield f"    static_graph={settings.static_graph},"
    if settings.communication_hook in _HOOKS:
        yield f"    ddp_comm_hook={_HOOKS[settings.communication_hook]},"
    yield ")"


def _sharded(best: BestConfiguration) -> Iterator[str]:
    settings = best.settings
    compute = computes_in(best)
    parameters = "None" if compute is Dtype.FLOAT32 else f"torch.{compute.value}"
    replicas = best.target.ranks // (settings.shard_size or best.target.ranks)
    yield f"strategy = ModelParallelStrategy(data_parallel_size={best.target.ranks}, "\
        "tensor_parallel_size=1)"  # fmt: skip
    yield ""
    yield ""
    yield "def shard(model, blocks, device_type):"
    yield '    """To be called in the LightningModule\'s configure_model()."""'
    yield "    mesh = torch.distributed.device_mesh.init_device_mesh("
    if settings.shard_size is None:
        yield f'        device_type, ({best.target.ranks},), mesh_dim_names=("shard",)'
    else:
        yield f"        device_type, ({replicas}, {settings.shard_size}), "\
            'mesh_dim_names=("replicate", "shard")'  # fmt: skip
    yield "    )"
    yield f"    policy = MixedPrecisionPolicy(param_dtype={parameters}, "\
        f"reduce_dtype=torch.{reduces_in(best).value})"  # fmt: skip
    yield "    for block in blocks:"
    yield "        fully_shard("
    yield "            block, mesh=mesh, mp_policy=policy, "\
        f"reshard_after_forward={settings.reshard_after_forward}"  # fmt: skip
    yield "        )"
    yield "    fully_shard(model, mesh=mesh, mp_policy=policy)"
    yield ""


def _trainer(best: BestConfiguration) -> Iterator[str]:
    is_cpu = best.evidence.device is DeviceKind.CPU
    # FSDP2 casts by itself; Lightning's own precision would do it a second time.
    is_mixed = computes_in(best) is Dtype.BFLOAT16 and not best.settings.strategy.is_fsdp
    yield f"batch_size = {best.settings.micro_batch}  # of each rank's DataLoader"
    yield "trainer_arguments = dict("
    yield "    strategy=strategy,"
    yield f'    accelerator="{"cpu" if is_cpu else "gpu"}",'
    yield f"    devices={best.target.ranks_per_node},"
    yield f"    num_nodes={best.target.nodes},"
    yield f'    precision="{"bf16-mixed" if is_mixed else "32-true"}",'
    yield f"    accumulate_grad_batches={best.settings.accumulation_steps},"
    yield ")"

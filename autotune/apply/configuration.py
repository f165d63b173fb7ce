"""`autotune.load`: a saved configuration, applied to a training script by the trials' own code."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from autotune.apply.environment import apply_environment
from autotune.apply.misfits import log, refuse, warn
from autotune.errors import FieldError, UserError
from autotune.exporters.document import read
from autotune.exporters.fingerprint import other_model
from autotune.model import BestConfiguration, Binding, Target, TrainingSettings
from autotune.trainers.accumulation import Accumulation
from autotune.trainers.binding import bind_to_numa_node
from autotune.trainers.failures import RankError
from autotune.trainers.layers import ModelLayers, find_blocks
from autotune.trainers.parallelize import parallelize
from autotune.trainers.readback import parameters
from autotune.trainers.rendezvous import Place, device_of


def load(path: str | os.PathLike[str], *, force: bool = False) -> "Configuration":
    """The configuration in the YAML file at `path`, for use on this machine.

    Raises UserError for a file that isn't valid, and, unless `force`, for one that was measured on
    another machine type or GPU, or that is unconfirmed. Versions that differ are logged as warnings
    by the logger `autotune`, and so is what `force` lets through.
    """
    best = read(Path(path))
    refuse(best, str(path), force=force)
    return Configuration(best=best, force=force)


class BySettings(ABC):
    """What follows from settings alone, wherever they come from."""

    @property
    @abstractmethod
    def settings(self) -> TrainingSettings: ...

    @property
    def micro_batch(self) -> int:
        """Samples for each rank in one forward and backward."""
        return self.settings.micro_batch

    @property
    def accumulation_steps(self) -> int:
        """Micro-batches for each optimizer step."""
        return self.settings.accumulation_steps

    def accumulation(self, model: nn.Module) -> Accumulation:
        """What runs the micro-batches of the wrapped `model`, reducing gradients once a step."""
        return Accumulation(model, self.settings, device_of_model(model))


@dataclass(frozen=True, kw_only=True)
class Configuration(BySettings):
    """What was found fastest, as a training script uses it; see docs/use_in_scripts.md."""

    best: BestConfiguration
    force: bool = False
    """Use it where it wasn't measured, too; each such case is logged."""

    @property
    def settings(self) -> TrainingSettings:
        return self.best.settings

    @property
    def environment(self) -> Mapping[str, str]:
        return self.best.environment

    @property
    def target(self) -> Target:
        """What it was measured for."""
        return self.best.target

    def apply_env(self) -> None:
        """Set the variables, the number of threads and the binding to cores of this process.

        To be called before torch.distributed is initialized and before anything is done with CUDA:
        NCCL reads its variables once. Raises UserError when it is too late for a variable that
        isn't set already.
        """
        apply_environment(self.best)
        if self.settings.binding is Binding.NUMA:
            self._bind()

    def parallelize(
        self, model: nn.Module, *, blocks: Sequence[nn.Module] | None = None
    ) -> nn.Module:
        """`model`, laid out over the ranks: checkpointed, compiled, wrapped by DDP or FSDP2.

        The model is on its device already, and the process group is initialized. `blocks` are the
        modules that are sharded, checkpointed and compiled one by one, in forward's order; without
        them, they are the model's repeated modules. FSDP2 wraps in place. The optimizer is to be
        made from the returned model's parameters.

        Raises UserError without a process group, with another number of ranks than was measured
        (unless forced), and for a model without repeated modules where these are needed.
        """
        self._check_ranks()
        device = device_of_model(model)
        found = find_blocks(model) if blocks is None else list(blocks)
        if not found and self._needs_blocks:
            raise FieldError(
                "blocks", [], "can't be found: no module is repeated in this model",
                hint="name them: parallelize(model, blocks=[...])",
            )  # fmt: skip
        if other := other_model(self.best, parameters(model)):
            warn(other)
        return parallelize(ModelLayers(model=model, blocks=found), self.settings, device)

    @property
    def _needs_blocks(self) -> bool:
        settings = self.settings
        is_checkpointed = settings.activation_checkpointing.value != "none"
        return settings.strategy.is_fsdp or is_checkpointed or settings.compile

    def _check_ranks(self) -> None:
        if not dist.is_initialized():
            raise UserError(
                "parallelize: there is no process group yet",
                hint="call torch.distributed.init_process_group() before it",
            )
        ranks = dist.get_world_size()
        if ranks == self.target.ranks:
            return
        what = f"{ranks} ranks, and the configuration is for {self.target.ranks}"
        if not self.force:
            raise UserError(
                f"parallelize: this job has {what}: its global batch would be another one",
                hint="start as many ranks, or load it with force=True",
            )
        warn(f"forced: this job has {what}")

    def _bind(self) -> None:
        try:
            place = Place.from_environment()
            cores = bind_to_numa_node(place, device_of(self.best.evidence.device, place))
        except (RankError, RuntimeError) as error:
            raise UserError(
                f"apply_env: can't bind this rank to its cores: {error}",
                hint="call it in a process that torchrun has started",
            ) from None
        log.info("bound to %d cores", len(cores))


def device_of_model(model: nn.Module) -> torch.device:
    """Where the model's parameters are."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))

"""Times a trainer's steps: a warm-up, then windows of steps that are timed together.

Nothing inside a window waits for the device or for another rank, beyond what training itself does.
"""

import time
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from autotune.model import MeasurementPlan, Window
from autotune.model.protocol import FailureKind, Verdict, WindowDone
from autotune.trainers.channel import Channel
from autotune.trainers.failures import RankError
from autotune.trainers.step import Trainer


@dataclass
class Recording:
    """What was measured so far; the same on all ranks."""

    windows: list[Window] = field(default_factory=list)
    warmup_s: float = 0.0
    losses: list[float] = field(default_factory=list)
    gradient_norms: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Steps run in one go on this rank; losses and norms still on the device, [steps]."""

    seconds: float
    losses: Tensor
    norms: Tensor


def measure(trainer: Trainer, plan: MeasurementPlan, channel: Channel) -> Recording:
    """Warm up, then close windows until the plan is done or the launcher ends it."""
    recording = Recording()
    steps = _warm_up(trainer, plan, recording)
    for index in range(plan.windows):
        samples_before = trainer.samples_done
        seconds = _exchange(_run(trainer, steps), trainer, recording)
        samples = (trainer.samples_done - samples_before) * dist.get_world_size()
        window = Window(index=index, steps=steps, samples=samples, seconds=seconds)
        recording.windows.append(window)
        if not _goes_on(window, channel, trainer.device):
            break
    return recording


def _warm_up(trainer: Trainer, plan: MeasurementPlan, recording: Recording) -> int:
    """Run the warm-up; the number of steps in a window by the speed of its second half."""
    started = time.perf_counter()
    stretches = [_run(trainer, 1) for _ in range(plan.warmup_steps)]
    recording.warmup_s = time.perf_counter() - started
    settled = stretches[plan.warmup_steps // 2 :]
    together = Stretch(
        seconds=sum(stretch.seconds for stretch in settled) / len(settled),
        losses=torch.cat([stretch.losses for stretch in stretches]),
        norms=torch.cat([stretch.norms for stretch in stretches]),
    )
    step_s = _exchange(together, trainer, recording)
    return max(1, min(plan.max_steps_per_window, round(plan.window_s / step_s)))


def _run(trainer: Trainer, steps: int) -> Stretch:
    _synchronize(trainer.device)
    started = time.perf_counter()
    results = [trainer.step() for _ in range(steps)]
    _synchronize(trainer.device)
    return Stretch(
        seconds=time.perf_counter() - started,
        losses=torch.stack([loss for loss, _ in results]),
        norms=torch.stack([norm for _, norm in results]),
    )


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _exchange(stretch: Stretch, trainer: Trainer, recording: Recording) -> float:
    """Record the losses and norms of all ranks; the seconds of the slowest one."""
    mine = torch.cat(
        [
            torch.tensor([stretch.seconds], dtype=torch.float64, device=trainer.device),
            stretch.losses.double(),
            stretch.norms.double(),
        ]
    )
    table = gather(mine)
    steps = len(stretch.losses)
    losses, norms = table[:, 1 : 1 + steps], table[:, 1 + steps :]
    _check_finite(losses, norms, first_step=len(recording.losses))
    recording.losses += losses.mean(dim=0).tolist()
    recording.gradient_norms += norms[0].tolist()
    return float(table[:, 0].max())


def gather(values: Tensor) -> Tensor:
    """The one-dimensional `values` of all ranks, [ranks, values], on the CPU."""
    rows = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, values)
    return torch.stack(rows).cpu()


def _check_finite(losses: Tensor, norms: Tensor, *, first_step: int) -> None:
    for name, values in (("loss", losses), ("gradient norm", norms)):
        bad = (~values.isfinite()).T.nonzero()
        if len(bad):
            step, rank = bad[0].tolist()
            raise RankError(
                FailureKind.NON_FINITE,
                f"the {name} of step {first_step + step} is {values[rank, step].item()} on rank "
                f"{rank} (steps count from 0, the warm-up included)",
            )


def _goes_on(window: Window, channel: Channel, device: torch.device) -> bool:
    """The launcher's verdict, which rank 0 asks for and passes on."""
    end = torch.zeros(1, dtype=torch.int32, device=device)
    if dist.get_rank() == 0:
        channel.send(WindowDone(window=window))
        end += channel.verdict() is not Verdict.GO
    dist.broadcast(end, src=0)
    return not end.item()

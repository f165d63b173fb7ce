"""Times a trainer's steps: one by one until they have settled, then windows of several together.

Nothing inside a window waits for the device or for another rank, beyond what training itself does.
"""

import time
from dataclasses import dataclass, field
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor

from autotune.model import MeasurementPlan, Window
from autotune.model.protocol import FailureKind, Progress, Verdict, WindowDone
from autotune.trainers import warmup
from autotune.trainers.channel import Channel
from autotune.trainers.failures import RankError
from autotune.trainers.step import Trainer


@dataclass
class Recording:
    """What was measured so far; the same on all ranks."""

    windows: list[Window] = field(default_factory=list)
    warmup_steps: int = 0
    warmup_s: float = 0.0
    settled: bool = False
    losses: list[float] = field(default_factory=list)
    gradient_norms: list[float] = field(default_factory=list)

    @property
    def step_s(self) -> float:
        """What a step takes in the windows, in seconds."""
        return median(window.seconds / window.steps for window in self.windows)


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Steps run in one go on this rank; losses and norms still on the device, [steps]."""

    seconds: float
    reserved_bytes: int
    """By the CUDA allocator when it ended; 0 on CPU."""
    losses: Tensor
    norms: Tensor


@dataclass(frozen=True, kw_only=True)
class Together:
    """A stretch as all ranks see it."""

    seconds: float
    """Of the slowest rank."""
    reserved_bytes: float
    """Over all ranks."""


def measure(trainer: Trainer, plan: MeasurementPlan, channel: Channel) -> Recording:
    """Warm up, then close windows until the plan is done or the launcher ends it."""
    recording = Recording()
    step_s = _warm_up(trainer, plan, recording, channel)
    steps = max(1, min(plan.max_steps_per_window, round(plan.window_s / step_s)))
    for index in range(plan.windows):
        samples_before = trainer.samples_done
        seconds = _exchange(_run(trainer, steps), trainer, recording).seconds
        samples = (trainer.samples_done - samples_before) * dist.get_world_size()
        window = Window(index=index, steps=steps, samples=samples, seconds=seconds)
        recording.windows.append(window)
        if not _goes_on(window, channel, trainer.device):
            break
    return recording


def _warm_up(
    trainer: Trainer, plan: MeasurementPlan, recording: Recording, channel: Channel
) -> float:
    """Run steps until their times have settled; returns the seconds that one takes by then.

    The ranks see the same times, so that they end it at the same step.
    """
    started = time.perf_counter()
    step_s: list[float] = []
    reserved_bytes, last_growth = 0.0, 0
    while not warmup.is_over(step_s, plan, last_growth):
        _tell(channel, steps=len(step_s))
        together = _exchange(_run(trainer, 1), trainer, recording)
        if together.reserved_bytes > reserved_bytes:
            reserved_bytes, last_growth = together.reserved_bytes, len(step_s)
        step_s.append(together.seconds)
    recording.warmup_s = time.perf_counter() - started
    recording.warmup_steps = len(step_s)
    recording.settled = warmup.has_settled(step_s[last_growth:])
    return warmup.settled_step_s(step_s)


def _tell(channel: Channel, *, steps: int) -> None:
    """A sign of life, by which the launcher knows a hang early. None is sent within windows."""
    if dist.get_rank() == 0:
        channel.send(Progress(steps=steps))


def _run(trainer: Trainer, steps: int) -> Stretch:
    synchronize(trainer.device)
    started = time.perf_counter()
    results = [trainer.step() for _ in range(steps)]
    synchronize(trainer.device)
    return Stretch(
        seconds=time.perf_counter() - started,
        reserved_bytes=_reserved_bytes(trainer.device),
        losses=torch.stack([loss for loss, _ in results]),
        norms=torch.stack([norm for _, norm in results]),
    )


def synchronize(device: torch.device) -> None:
    """Wait until `device` has done what it was given; at a stretch's edges only."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _reserved_bytes(device: torch.device) -> int:
    return torch.cuda.memory_reserved(device) if device.type == "cuda" else 0


def _exchange(stretch: Stretch, trainer: Trainer, recording: Recording) -> Together:
    """Record the losses and norms of all ranks; returns what concerns the time."""
    facts = [stretch.seconds, float(stretch.reserved_bytes)]
    mine = torch.cat(
        [
            torch.tensor(facts, dtype=torch.float64, device=trainer.device),
            stretch.losses.double(),
            stretch.norms.double(),
        ]
    )
    steps = len(stretch.losses)
    table = gather(mine)
    losses, norms = table[:, 2 : 2 + steps], table[:, 2 + steps :]
    _check_finite(losses, norms, first_step=len(recording.losses))
    recording.losses += losses.mean(dim=0).tolist()
    recording.gradient_norms += norms[0].tolist()
    return Together(seconds=float(table[:, 0].max()), reserved_bytes=float(table[:, 1].sum()))


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

"""One rank of a trial.

    torchrun --nproc-per-node 2 -m autotune.trainers.rank SPEC.json
    python -m autotune.trainers.rank SPEC.json      # with RANK, WORLD_SIZE, MASTER_ADDR, ... set

SPEC.json is an encoded TrialSpec. Messages are JSON lines, see docs/trial_protocol.md: to the
socket in AUTOTUNE_CHANNEL_FD, else to stdout. Exit code 0: done; 1: failed, with a last message.
"""

import faulthandler
import json
import os
import signal
import socket
import sys
import traceback
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist

from autotune.model import Binding, DeviceKind, KnobValue, Measurement, TrialSpec, decode
from autotune.model.protocol import FailureKind, Finished, Started
from autotune.trainers import channel as channels
from autotune.trainers import flight, live, process, readback
from autotune.trainers.binding import bind_to_numa_node
from autotune.trainers.channel import Channel
from autotune.trainers.collectives import counted
from autotune.trainers.communication import communication_share
from autotune.trainers.failures import RankError, failed
from autotune.trainers.measure import Recording, gather, measure
from autotune.trainers.parallelize import parallelize
from autotune.trainers.precision import with_own_dtype
from autotune.trainers.process import leave
from autotune.trainers.rendezvous import Place, device_of, join, join_again
from autotune.trainers.script.run import run_script
from autotune.trainers.sources import build
from autotune.trainers.step import Trainer
from autotune.trainers.uptake import (
    agreed,
    log_size,
    nccl_facts,
    read_nccl_log,
    start_nccl_log,
    uptake,
)
from autotune.trainers.versions import versions as versions_on
from autotune.trainers.workload import Context


def main(arguments: Sequence[str]) -> NoReturn:
    """Run the rank and end its process. Everything else comes from the environment."""
    prepare_process()
    channel = Channel.from_environment()
    try:
        spec, folder = read_spec(arguments)
        run(spec, folder, Place.from_environment(), channel)
    except BaseException as error:
        if isinstance(error, RankError):  # it says all that there is to say
            sys.stderr.write(f"{error}\n")
        else:
            traceback.print_exc()
        with suppress(OSError):  # the launcher may be gone; stderr has it all
            channel.send_last(failed(_rank(), error))
        leave(1)


@dataclass(frozen=True, kw_only=True)
class Rank:
    """What lasts as long as the process."""

    place: Place
    device: torch.device
    versions: dict[str, str]
    channel: Channel
    nccl_log: Path | None


def run(spec: TrialSpec, folder: Path, place: Place, channel: Channel) -> NoReturn:
    """The trial, from top to bottom; `folder` is for what it writes. Others may follow it."""
    nccl_log = start_nccl_log(folder) if spec.device is DeviceKind.CUDA else None
    flight.record(folder)
    channel.on_inspect = partial(flight.write, folder, place.rank)
    if spec.script is not None:
        run_script(spec, spec.script, place, channel, nccl_log)
    device = device_of(spec.device, place)
    versions = versions_on(device)
    if spec.settings.binding is Binding.NUMA:
        bind_to_numa_node(place, device)
    store = join(spec, place, device, versions)
    channel.send(Started(rank=place.rank, pid=os.getpid(), host=socket.gethostname()))
    rank = Rank(place=place, device=device, versions=versions, channel=channel, nccl_log=nccl_log)
    relay = live.Relay(place.rank, channel, device)

    trainer = run_trial(spec, rank, began_s=process.started_s())
    number = 0
    while live.may_stay(spec):
        model = weakref.ref(trainer.workload.model)
        del trainer
        following = relay.next(model)
        if following is None:
            break
        number += 1
        spec, folder = read_spec([following.spec_path])
        channel.on_inspect = partial(flight.write, folder, place.rank)
        join_again(spec, place, store, versions, number)
        channel.send(Started(rank=place.rank, pid=os.getpid(), host=socket.gethostname()))
        trainer = run_trial(spec, rank, began_s=following.began_s, is_first=False)

    channel.close()
    if device.type == "cuda":
        dist.destroy_process_group()
    leave(0)


def run_trial(spec: TrialSpec, rank: Rank, *, began_s: float, is_first: bool = True) -> Trainer:
    """Build, measure, report; returns what has trained, so that the caller decides on its end."""
    log_start = log_size(rank.nccl_log)
    place = rank.place
    context = Context(device=rank.device, seed=spec.seed, rank=place.rank, ranks=place.ranks)
    workload = build(spec.workload, spec.workload_folder, context)
    settings = with_own_dtype(spec.settings, workload.dtype)
    model = parallelize(workload, settings, rank.device)
    trainer = Trainer(workload, model, settings, place.rank, rank.device)
    forget_build_memory(rank.device)
    build_s = process.now_s() - began_s

    recording = measure(trainer, spec.plan, rank.channel)
    measurement = summarize(trainer, spec, recording, build_s, rank.versions)
    effective = read_back(trainer, spec, rank.nccl_log, log_start)
    measurement = replace(measurement, effective=effective, live=not is_first)
    if spec.plan.communication:
        share = communication_share(trainer, recording.step_s)
        measurement = replace(measurement, communication_share=share)
    if rank.place.rank == 0:
        rank.channel.send_last(Finished(measurement=measurement))
    return trainer


def prepare_process() -> None:
    """Make the process end when it is told to, and when nobody is left to tell it."""
    # A parent that forked this process may have handlers of its own.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    faulthandler.enable()
    # For a launcher that wants to see where a rank hangs.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    if channels.VARIABLE in os.environ:
        process.die_with_parent()
    if "OMP_NUM_THREADS" in os.environ:
        # OpenMP reads it when it is loaded, which for a forked process was in its parent.
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def read_spec(arguments: Sequence[str]) -> tuple[TrialSpec, Path]:
    """The trial in the file that the only argument names, and the file's folder."""
    try:
        path = Path(*arguments)
        return decode(TrialSpec, json.loads(path.read_bytes())), path.absolute().parent
    except (OSError, ValueError) as error:
        raise RankError(FailureKind.ENVIRONMENT, f"can't read the trial: {error}") from error


def forget_build_memory(device: torch.device) -> None:
    """Have the peak of memory be that of training: building holds the whole model for a moment."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def summarize(
    trainer: Trainer,
    spec: TrialSpec,
    recording: Recording,
    build_s: float,
    versions: dict[str, str],
) -> Measurement:
    """What was measured, with what is known only at the end. A collective call."""
    cuda = spec.device is DeviceKind.CUDA
    peak = torch.cuda.max_memory_allocated(trainer.device) if cuda else process.peak_memory_bytes()
    retries = torch.cuda.memory_stats(trainer.device)["num_alloc_retries"] if cuda else 0
    table = gather(torch.tensor([peak, retries], dtype=torch.int64, device=trainer.device))
    return Measurement(
        windows=tuple(recording.windows),
        warmup_steps=recording.warmup_steps,
        settled=recording.settled,
        communication_share=None,
        build_s=build_s,
        warmup_s=recording.warmup_s,
        losses=tuple(recording.losses),
        gradient_norms=tuple(recording.gradient_norms),
        peak_memory_bytes=tuple(table[:, 0].tolist()),
        allocator_retries=int(table[:, 1].sum()),
        parameters=readback.parameters(trainer.model),
        effective={},
        versions=versions,
    )


def read_back(
    trainer: Trainer, spec: TrialSpec, nccl_log: Path | None, log_start: int = 0
) -> dict[str, KnobValue]:
    """What was really in effect, after one more step whose collectives are counted.

    NCCL's choices are those that it logged from byte `log_start` on. A collective call. After the
    measurement, so that nothing of it is in what was measured.
    """
    with counted() as collectives:
        trainer.step()
    found = readback.effective(trainer, collectives)
    if spec.device is DeviceKind.CPU:
        return found | uptake(spec.environment, None, uses_nccl=False)
    log = agreed(read_nccl_log(nccl_log, log_start))
    facts = {} if log is None else nccl_facts(log)
    return found | uptake(spec.environment, log, uses_nccl=True) | facts


def _rank() -> int:
    """Which rank to name in a message, even if the environment makes no sense."""
    value = os.environ.get("RANK", "")
    return int(value) if value.isdecimal() else 0


if __name__ == "__main__":
    main(sys.argv[1:])

"""One rank of a trial of a user's script, started as torchrun would start it."""

import os
import resource
import runpy
import socket
import sys
import traceback
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import torch
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from autotune.model import Binding, DeviceKind, Measurement, Samples, Script, TrialSpec
from autotune.model.protocol import Failed, FailureKind, Finished, Started
from autotune.trainers import channel as channels
from autotune.trainers import process
from autotune.trainers.binding import bind_to_numa_node
from autotune.trainers.channel import Channel
from autotune.trainers.failures import RankError, failed
from autotune.trainers.process import leave
from autotune.trainers.rendezvous import (
    STORE_VARIABLE,
    Place,
    check_agreement,
    device_of,
    meet,
    report,
)
from autotune.trainers.script import found, session
from autotune.trainers.script.counts import Counts, watch
from autotune.trainers.script.edges import Edges
from autotune.trainers.script.meter import Check, Meter
from autotune.trainers.script.session import Session
from autotune.trainers.uptake import agreed, merged_readback, nccl_facts, own_readback, uptake
from autotune.trainers.versions import versions

CHILD_BYTES = 100 * 2**20
"""A process that had as much memory has imported PyTorch: it is no helper."""


def run_script(
    spec: TrialSpec, script: Script, place: Place, channel: Channel, nccl_log: Path | None
) -> NoReturn:
    """The trial, from top to bottom. Leaves by an exception if the script fails."""
    if spec.settings.binding is Binding.NUMA:
        bind_to_numa_node(place, device_of(spec.device, place))
    store = meet(place, timedelta(seconds=spec.collective_timeout_s))
    seen = versions(torch.device("cpu"))
    check_agreement(PrefixStore("autotune", store), place, report(spec, seen))
    channel.send(Started(rank=place.rank, pid=os.getpid(), host=socket.gethostname()))
    current = _session(spec, place, channel, store, nccl_log)
    be_like_torchrun(spec, place)
    try:
        execute(script, script.rendered(spec.settings, place.ranks))
    except BaseException as error:
        left_well = isinstance(error, SystemExit) and error.code in (None, 0)
        if not (current.meter.is_over or left_well):
            raise
    if current.meter.is_over:
        leave(0)
    # Nothing of autotune's has failed: a traceback would only hide what the script has said last.
    why = why_none(script, current)
    sys.stderr.write(f"autotune: {why}\n")
    channel.send_last(
        Failed(
            rank=place.rank, kind=FailureKind.NO_METRIC, exception="",
            message=why, traceback="",
        )
    )  # fmt: skip
    leave(1)


def _session(
    spec: TrialSpec, place: Place, channel: Channel, store: Store, nccl_log: Path | None
) -> Session:
    counts = Counts()
    edges = Edges(store, place)
    meter = Meter(
        plan=spec.plan,
        edges=edges,
        channel=channel,
        counts=counts,
        samples=spec.settings.global_batch(place.ranks),
        check=_check(spec, place.ranks),
    )
    current = Session(
        spec=spec, ranks=place.ranks, counts=counts, meter=meter,
        on_over=lambda: finish(current, edges, channel, nccl_log),
        on_error=lambda error: give_up(place, channel, error),
    )  # fmt: skip
    watch(counts)
    current.watch_optimizers()
    session.begin(current)
    return current


def give_up(place: Place, channel: Channel, error: Exception) -> NoReturn:
    """Tell of what went wrong in measuring, and end the process."""
    traceback.print_exception(error)
    with suppress(OSError):  # the launcher may be gone; stderr has it all
        channel.send_last(failed(place.rank, error))
    leave(1)


def _check(spec: TrialSpec, ranks: int) -> Check:
    asked = spec.settings.global_batch(ranks)
    script = spec.script

    def check(read: int) -> None:
        if script is None or script.samples is not Samples.COUNTED or read in (0, asked):
            return
        raise RankError(
            FailureKind.INVALID_KNOB,
            f"{script.program} reads {read} samples for an optimizer step over all ranks, and the "
            f"global batch is {asked}: tell it both {{micro_batch}} and {{accumulation_steps}}, or "
            "neither",
        )

    return check


def be_like_torchrun(spec: TrialSpec, place: Place) -> None:
    """The variables that torchrun sets beside those that are there already.

    Source: torch/distributed/elastic/agent/server/local_elastic_agent.py, _start_workers.
    """
    for name in (channels.VARIABLE, STORE_VARIABLE, "PYTHONSAFEPATH"):
        os.environ.pop(name, None)
    nodes = place.ranks // place.local_ranks
    os.environ |= {
        "GROUP_RANK": str(place.rank // place.local_ranks),
        "GROUP_WORLD_SIZE": str(nodes),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(place.rank),
        "ROLE_WORLD_SIZE": str(place.ranks),
        "TORCHELASTIC_RUN_ID": spec.trial_id,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        # The store is served already: the script's rank 0 must not serve another.
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")


def execute(script: Script, arguments: list[str]) -> None:
    """What `python FILE` or `python -m MODULE` would do."""
    os.chdir(script.folder)
    sys.argv = [script.program, *arguments]
    if script.is_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(script.program, run_name="__main__", alter_sys=True)
        return
    sys.path.insert(0, str(Path(script.program).absolute().parent))
    runpy.run_path(script.program, run_name="__main__")


def finish(current: Session, edges: Edges, channel: Channel, nccl_log: Path | None) -> None:
    """All is measured: tell it, and have no rank wait for another from here on."""
    cuda = current.spec.device is DeviceKind.CUDA
    logs = edges.share("nccl", own_readback(nccl_log)) if cuda else []
    channel.close()
    if edges.leads:
        channel.send(Finished(measurement=_measurement(current, logs)))
    edges.part()


def _measurement(current: Session, logs: list[object]) -> Measurement:
    spec, recording, facts = current.spec, current.meter.recording, current.meter.facts
    model = found.wrapped_model()
    effective = found.effective(current, model)
    if spec.device is DeviceKind.CPU:
        effective |= uptake(spec.environment, None, uses_nccl=False)
    else:
        log = agreed(merged_readback(logs))
        effective |= uptake(spec.environment, log, uses_nccl=True)
        effective |= nccl_facts(log) if log else {}
    return Measurement(
        windows=tuple(recording.windows),
        warmup_steps=recording.warmup_steps,
        settled=recording.settled,
        build_s=current.meter.first_step_s - process.started_s(),
        warmup_s=recording.warmup_s,
        losses=tuple(recording.losses),
        gradient_norms=(),
        peak_memory_bytes=tuple(one.peak_bytes for one in facts),
        allocator_retries=sum(one.retries for one in facts),
        parameters=found.parameters(current, model),
        effective=effective,
        versions=versions(found.device_of(spec.device)),
    )


def why_none(script: Script, current: Session) -> str:
    """Why a script that has ended was not measured."""
    steps = current.meter.steps
    if steps:
        return (
            f"{script.program} ended after {steps} optimizer step{'s' * (steps != 1)}, before its "
            "windows were measured: have it train longer"
        )
    return f"{script.program} ended without an optimizer step{_elsewhere()}"


def _elsewhere() -> str:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if used.ru_maxrss * 1024 < CHILD_BYTES and not process.children():
        return (
            " of torch.optim in the process that autotune started, which is to train as a rank of "
            "torchrun's does; what has other optimizers says of its steps by autotune.trial"
        )
    return (
        " in the process that autotune started, and it started processes of its own: autotune "
        "starts the ranks itself, as torchrun does, so give it what each rank runs"
    )

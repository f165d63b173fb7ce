"""How the ranks of a trial find each other, and make sure that they run the same trial."""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import (  # type: ignore[attr-defined]
    PrefixStore,
    Store,
    TCPStore,
    rendezvous,
)

from autotune.errors import quoted
from autotune.model import DeviceKind, TrialSpec, encode
from autotune.model.protocol import FailureKind
from autotune.trainers.failures import RankError

STORE_VARIABLE = "AUTOTUNE_STORE_FD"
SHOWN_DIFFERENCES = 5
PARTING_TIME = timedelta(seconds=5)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A rank's position among the ranks, from the variables that torchrun sets too."""

    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    address: str
    port: int

    @staticmethod
    def from_environment() -> "Place":
        """Raises RankError when a variable is missing or isn't a number."""
        return Place(
            rank=_number("RANK"),
            ranks=_number("WORLD_SIZE"),
            local_rank=_number("LOCAL_RANK"),
            local_ranks=_number("LOCAL_WORLD_SIZE"),
            address=_variable("MASTER_ADDR"),
            port=_number("MASTER_PORT"),
        )


def device_of(kind: DeviceKind, place: Place) -> torch.device:
    """The device of this rank alone, made current."""
    if kind is DeviceKind.CPU:
        return torch.device("cpu")
    found = torch.cuda.device_count()
    if place.local_rank >= found:
        raise RankError(
            FailureKind.ENVIRONMENT,
            f"rank {place.rank} needs CUDA device {place.local_rank} on {socket.gethostname()}, "
            f"where PyTorch sees {found}",
        )
    device = torch.device("cuda", place.local_rank)
    torch.cuda.set_device(device)
    return device


def join(spec: TrialSpec, place: Place, device: torch.device, versions: Mapping[str, str]) -> Store:
    """Meet the other ranks, compare settings, and set up the default process group.

    Returns the store by which they have met.

    The comparison goes through the store, before there is any communicator: ranks with different
    NCCL settings may hang in their first collective.
    """
    timeout = timedelta(seconds=spec.collective_timeout_s)
    store = meet(place, timeout)
    check_agreement(PrefixStore("autotune", store), place, report(spec, versions))
    dist.init_process_group(
        spec.device.backend,
        store=PrefixStore("default_pg", store),
        rank=place.rank,
        world_size=place.ranks,
        timeout=timeout,
        device_id=device if spec.device is DeviceKind.CUDA else None,
    )
    return store


def join_again(
    spec: TrialSpec, place: Place, store: Store, versions: Mapping[str, str], number: int
) -> None:
    """Compare settings for the `number`th trial more of ranks that have met and stayed."""
    check_agreement(PrefixStore(f"autotune/{number}", store), place, report(spec, versions))


def check_agreement(store: Store, place: Place, report: Mapping[str, object]) -> None:
    """Raise RankError on every rank if any of them reports something else than rank 0.

    Rank 0 compares, so that the store is read once for each rank and not once for each pair.
    """
    store.set(f"report/{place.rank}", json.dumps(report))
    if place.rank == 0:
        reports = [json.loads(store.get(f"report/{rank}")) for rank in range(place.ranks)]
        store.set("difference", _first_difference(reports))
    difference = store.get("difference").decode()
    if difference:
        part(store, place)
        raise RankError(FailureKind.ENVIRONMENT, difference)


def part(store: Store, place: Place) -> None:
    """Rank 0 serves the store: it leaves after all others have read what they need."""
    store.set(f"read/{place.rank}", "")
    if place.rank == 0:
        with suppress(dist.DistError):
            store.wait([f"read/{rank}" for rank in range(place.ranks)], PARTING_TIME)


def meet(place: Place, timeout: timedelta) -> Store:
    """The TCP store of all ranks, served by rank 0 or, under torchrun, by its agent."""
    fd = os.environ.get(STORE_VARIABLE)
    if fd is not None and place.rank == 0:
        return TCPStore(
            place.address, place.port, place.ranks, is_master=True, timeout=timeout,
            wait_for_workers=False, master_listen_fd=int(fd),
        )  # fmt: skip
    store: Store
    store, _, _ = next(
        rendezvous("env://", rank=place.rank, world_size=place.ranks, timeout=timeout)
    )
    store.set_timeout(timeout)
    return store


def report(spec: TrialSpec, versions: Mapping[str, str]) -> dict[str, object]:
    """What has to be equal on all ranks."""
    seen = {name: os.environ.get(name) for name in spec.environment}
    asked = dict(spec.environment)
    spec = without_places(spec)
    return {"spec": encode(spec), "versions": dict(versions), "seen": seen, "asked": asked}


def without_places(spec: TrialSpec) -> TrialSpec:
    """`spec` without where the user's code lies, which may be elsewhere on each node."""
    script = spec.script
    if script is not None:
        program = script.program.removeprefix(script.folder.rstrip("/") + "/")
        script = replace(script, folder="", program=program)
    return replace(spec, workload_folder="", script=script)


def _first_difference(reports: list[dict[str, dict[str, object]]]) -> str:
    """A sentence on the lowest rank that differs, or an empty one."""
    for rank, report in enumerate(reports):
        unseen = [
            f"{name} is {quoted(report['seen'].get(name))} where the trial asks for {quoted(value)}"
            for name, value in report["asked"].items()
            if report["seen"].get(name) != value
        ]
        if unseen:
            return f"rank {rank} doesn't see the trial's environment: {_some(unseen)}"
        other = dict(_leaves(reports[0], ""))
        mine = dict(_leaves(report, ""))
        differing = [
            f"{name} is {quoted(mine.get(name))} there and {quoted(other.get(name))} on rank 0"
            for name in sorted(mine.keys() | other.keys())
            if mine.get(name) != other.get(name)
        ]
        if differing:
            return f"rank {rank} differs from rank 0: {_some(differing)}"
    return ""


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _some(texts: list[str]) -> str:
    more = len(texts) - SHOWN_DIFFERENCES
    return "; ".join(texts[:SHOWN_DIFFERENCES]) + (f"; and {more} more" if more > 0 else "")


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise RankError(FailureKind.ENVIRONMENT, f"{name} is not set; torchrun sets it")
    return value


def _number(name: str) -> int:
    value = _variable(name)
    if not value.isdecimal():
        raise RankError(FailureKind.ENVIRONMENT, f"{name} has to be a number, not {value!r}")
    return int(value)

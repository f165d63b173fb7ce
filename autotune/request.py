"""What a person asked for, and the target and the space that it comes to."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autotune.budget import Budget
from autotune.errors import ABSENT, FieldError, closest
from autotune.executors.landscapes import LandscapeSource
from autotune.machines import LOCAL, Place
from autotune.model import KnobValue, Machine, StudySpec, Target, UserWorkload, preset
from autotune.space.catalogue import load_knobs
from autotune.space.conditions import shown
from autotune.space.environment import holding, named, notices
from autotune.space.knob import Knob, Searched
from autotune.space.space import Space
from autotune.yaml_reader import Source, parse_yaml, read_text

MAX_NODES = 10_000
MAX_CPU_RANKS = 4
"""Ranks on a machine without GPUs when the user names none: more only divide the same cores."""


@dataclass(frozen=True, kw_only=True)
class Spaces:
    """Which knobs there are, and how many of them are searched."""

    name: str = Searched.DEFAULT.value
    text: str = ""
    """Content of a user's file of knobs, if `name` is one."""

    @classmethod
    def of(cls, name: str) -> "Spaces":
        """`default`, `full`, or the path of a file. Raises UserError if it can't be read."""
        if name in set(Searched):
            return cls(name=name)
        meant = "" if Path(name).exists() else closest(name, [level.value for level in Searched])
        if meant:
            rule = "is neither a space nor a file"
            raise FieldError("--space", name, rule, alternatives=[*Searched, "FILE"])
        return cls(name=name, text=read_text(Path(name)))

    @property
    def searched(self) -> Searched:
        return Searched.FULL if self.name == Searched.FULL else Searched.DEFAULT

    def knobs(self) -> tuple[Knob, ...]:
        """The shipped knobs with the user's. Raises UserError with every mistake in the file."""
        return load_knobs([] if self.name in set(Searched) else [parse_yaml(self.text, self.name)])


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a person asked for, as they wrote it."""

    instance: str = LOCAL
    workload: str = "tiny"
    own_workload: UserWorkload | None = None
    """What `workload` builds, if it isn't built in."""
    nproc: int | None = None
    global_batch: int | None = None
    budget: Budget = field(default_factory=Budget)
    max_trials: int | None = None
    window_s: float | None = None
    seed: int = 0
    strategy: str = StudySpec.search
    pinned: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    space: Spaces = field(default_factory=Spaces)
    instances: Path | None = None
    allow_lossy: bool = False
    assumed: Mapping[str, str] = field(default_factory=dict)
    """Facts of a machine that isn't here, as they were written."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    landscape: LandscapeSource | None = None
    """What a simulated study runs on."""
    output: Path | None = None
    parallel_trials: int | None = 1
    """None is as many as there is room for."""

    @property
    def instance_sources(self) -> list[Source]:
        """The user's catalogue of instances, if there is one."""
        return [parse_yaml(self.instances_text, str(self.instances))] if self.instances else []

    @property
    def instances_text(self) -> str:
        return read_text(self.instances) if self.instances else ""


def build_target(request: Request, machine: Machine) -> Target:
    """What the study is for. Raises FieldError for an unknown workload or too many ranks."""
    workload = request.own_workload or preset(request.workload)
    return Target(
        instance=machine.instance,
        nodes=_nodes(request.assumed),
        ranks_per_node=_ranks(request.nproc, machine),
        workload=workload.name,
        global_batch=_global_batch(request, workload.global_batch),
    )


def build_space(request: Request, place: Place, target: Target) -> Space:
    """The candidates for `target`. Raises FieldError for what leaves none."""
    knobs = request.space.knobs()
    environment = holding(knobs, request.environment)
    pinned = _parse_pins(request.pinned, knobs)
    return Space(
        knobs,
        place.facts(
            target,
            workload=request.own_workload,
            assumed=request.assumed,
            environment=environment,
        ),
        pinned=pinned,
        only=_parse_only(request.only, knobs, pinned),
        searched=request.space.searched,
        allow_lossy=request.allow_lossy,
    )


def all_notices(request: Request, space: Space) -> list[str]:
    """What a person should know of the names they used, and of the variables they have set."""
    given = [("--set", name) for name in request.pinned] + [("--only", n) for n in request.only]
    found = [named(name, space.knobs, flag).notice for flag, name in given]
    return [n for n in found if n] + notices(request.environment, space.facts)


def _ranks(nproc: int | None, machine: Machine) -> int:
    most = len(machine.gpus) or machine.cores
    if nproc is None:
        return len(machine.gpus) or min(machine.cores, MAX_CPU_RANKS)
    if not 1 <= nproc <= most:
        what = "GPUs" if machine.gpus else "usable cores"
        raise FieldError(
            "--nproc", nproc, f"has to be from 1 to {most}, the number of {what} of this machine"
        )
    return nproc


def _global_batch(request: Request, default: int | None) -> int:
    if request.global_batch is not None:
        return request.global_batch
    if default is None:
        raise FieldError(
            "--global-batch", ABSENT, f"has to be given: {request.workload} names no default",
            hint="or return Workload(global_batch=...) from the function",
        )  # fmt: skip
    return default


def _nodes(assumed: Mapping[str, str]) -> int:
    text = assumed.get("nodes", "1")
    if not text.isdecimal() or not 1 <= int(text) <= MAX_NODES:
        raise FieldError("--assume nodes", text, f"has to be from 1 to {MAX_NODES}")
    return int(text)


def _parse_pins(pinned: Mapping[str, str], knobs: Sequence[Knob]) -> dict[str, KnobValue]:
    values: dict[str, KnobValue] = {}
    for name, text in pinned.items():
        knob = named(name, knobs, "--set").knob
        if knob.name in values:
            raise FieldError("--set", name, f"sets {knob.name} a second time")
        values[knob.name] = knob.parse(text)
    return values


def _parse_only(
    only: Sequence[str], knobs: Sequence[Knob], pinned: Mapping[str, KnobValue]
) -> list[str]:
    """The knobs to search. Raises FieldError for one that is held: nothing of it would be."""
    found = {name: named(name, knobs, "--only").knob.name for name in only}
    for name, knob in found.items():
        if knob in pinned:
            raise FieldError(
                "--only", name, f"can't be searched: --set {knob}={shown(pinned[knob])} holds it",
                alternatives=[other for other in found.values() if other not in pinned],
                hint=f"leave out --set of {knob} to search it, or name other knobs",
            )  # fmt: skip
    return list(dict.fromkeys(found.values()))

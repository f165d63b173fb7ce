"""Builds what a run needs from what a person asked for: machine, space, strategy, store, study."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from autotune.errors import FieldError, UserError
from autotune.executors.base import Executor
from autotune.executors.host import describe_machine
from autotune.executors.local import LocalExecutor
from autotune.loop.observer import Observer
from autotune.loop.study import StudyRunner
from autotune.model import (
    DeviceKind,
    KnobValue,
    Machine,
    MeasurementPlan,
    Study,
    StudySpec,
    StudyStatus,
    Target,
    preset,
)
from autotune.space.catalogue import load_knobs
from autotune.space.facts import Facts
from autotune.space.instances import load_instances, mismatch
from autotune.space.knob import Knob
from autotune.space.space import Space
from autotune.storage import Store, data_folder
from autotune.strategies import build_strategy

LOCAL = "local"
DEFAULT_BUDGET_S = 600.0
MAX_CPU_RANKS = 4
"""Ranks on a machine without GPUs when the user names none: more only divide the same cores."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a person asked for, as they wrote it."""

    instance: str = LOCAL
    workload: str = "tiny"
    nproc: int | None = None
    global_batch: int | None = None
    budget_s: float | None = None
    max_trials: int | None = None
    seed: int = 0
    pinned: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    output: Path | None = None


def find_machine(instance: str) -> Machine:
    """Describe this machine under the name `instance`.

    Raises FieldError for a name that is unknown, and UserError for one that this machine isn't.
    """
    machine = describe_machine()
    if instance in (LOCAL, machine.instance):
        return machine
    catalogue = load_instances()
    if instance not in catalogue:
        raise FieldError(
            "--instance", instance, "is unknown", alternatives=[LOCAL, *sorted(catalogue)]
        )
    difference = mismatch(machine, catalogue[instance])
    if difference:
        raise UserError(
            f"--instance: this machine isn't a {instance}: {difference}",
            hint=f"run it on a {instance}, or tune what is here with --instance local",
        )
    return replace(machine, instance=instance)


def build_target(request: Request, machine: Machine) -> Target:
    """What the study is for. Raises FieldError for an unknown workload or too many ranks."""
    workload = preset(request.workload)
    return Target(
        instance=machine.instance,
        nodes=1,
        ranks_per_node=_ranks(request.nproc, machine),
        workload=workload.name,
        global_batch=(
            workload.global_batch if request.global_batch is None else request.global_batch
        ),
    )


def build_space(
    request: Request, machine: Machine, target: Target, knobs: Sequence[Knob] | None = None
) -> Space:
    """The candidates for `target`. Raises FieldError for what leaves none."""
    knobs = load_knobs() if knobs is None else knobs
    return Space(
        knobs,
        Facts.of(machine, target),
        pinned=_parse_pins(request.pinned, knobs),
        only=request.only,
    )


def build_spec(request: Request, target: Target, space: Space) -> StudySpec:
    """The study's specification. Raises FieldError for a budget that can't hold a baseline."""
    budget_s = request.budget_s
    if budget_s is None and request.max_trials is None:
        budget_s = DEFAULT_BUDGET_S
    least_s = _least_budget_s(space.facts.device)
    if budget_s is not None and budget_s < least_s:
        raise FieldError(
            "--budget",
            f"{budget_s:g}s",
            f"is too short for one baseline trial, which takes about {least_s:.0f} s here",
            hint=f"use --budget {10 * least_s:.0f}s or more to try and confirm candidates",
        )
    return StudySpec(
        target=target,
        budget_s=budget_s,
        max_trials=request.max_trials,
        seed=request.seed,
        pinned=space.pinned,
        only=request.only,
        output=str(request.output) if request.output else None,
    )


def new_study(spec: StudySpec, machine: Machine, store: Store) -> Study:
    """A study under a run id of its own, recorded in `store`."""
    now = datetime.now(UTC)
    study = Study(
        run_id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        spec=spec,
        machine=machine,
        status=StudyStatus.RUNNING,
        created_at=now,
        updated_at=now,
    )
    store.add_study(study)
    return study


def find_study(store: Store, run: str) -> Study:
    """The study whose run id is or starts with `run`; `latest` is the newest.

    Raises FieldError if there is none, or more than one.
    """
    studies = list(store.studies())
    ids = [study.run_id for study in studies]
    if run == "latest" and studies:
        return studies[-1]
    found = [s for s in studies if s.run_id == run] or [
        s for s in studies if run and s.run_id.startswith(run)
    ]
    if not found:
        rule = "is no run in this store" if ids else "can't be found: this store has no runs"
        raise FieldError("RUN", run, rule, alternatives=ids[-10:])
    if len(found) > 1:
        raise FieldError(
            "RUN", run, "fits more than one run", alternatives=[s.run_id for s in found]
        )
    return found[0]


def runner(
    study: Study, machine: Machine, store: Store, observer: Observer, cancel: Event
) -> StudyRunner:
    """What runs `study` on this machine. Raises UserError if it belongs to another one."""
    spec = study.spec
    if spec.target.instance != machine.instance:
        raise UserError(
            f"run {study.run_id} was made on {spec.target.instance}, and this is "
            f"{machine.instance}: its trials can't be compared with new ones",
            hint="resume it on the machine it was made on, or start a new run here",
        )
    space = Space(load_knobs(), Facts.of(machine, spec.target), pinned=spec.pinned, only=spec.only)
    return StudyRunner(
        study=study,
        space=space,
        strategy=build_strategy(spec.search, space, spec.seed),
        executor=_executor(machine),
        store=store,
        folder=data_folder() / "runs" / study.run_id,
        observer=observer,
        cancel=cancel,
    )


def _executor(machine: Machine) -> Executor:
    return LocalExecutor(machine=machine)


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


def _parse_pins(pinned: Mapping[str, str], knobs: Sequence[Knob]) -> dict[str, KnobValue]:
    known = {knob.name: knob for knob in knobs}
    values: dict[str, KnobValue] = {}
    for name, text in pinned.items():
        if name not in known:
            raise FieldError("--set", name, "is no knob", alternatives=known)
        values[name] = known[name].parse(text)
    return values


def _least_budget_s(device: DeviceKind) -> float:
    """Starting the ranks and measuring all windows of one trial; a CUDA context takes longer."""
    plan = MeasurementPlan()
    return plan.windows * plan.window_s + (10.0 if device is DeviceKind.CUDA else 4.0)

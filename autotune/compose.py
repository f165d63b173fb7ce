"""Builds what a run needs: the study's specification and record, its space, strategy, executor."""

import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event

from autotune.budget import DEFAULT_BUDGET_S, check_budget
from autotune.errors import FieldError, UnreadableError, UserError
from autotune.executors.base import Executor
from autotune.executors.landscapes import LandscapeSource
from autotune.executors.local import LocalExecutor
from autotune.executors.rank_environment import carried_environment
from autotune.executors.simulated import SimulatedExecutor, VirtualClock
from autotune.loop.observer import Observer
from autotune.loop.records import StudyRecords
from autotune.loop.study import StudyEnd, StudyRunner
from autotune.machines import Place, find_place, simulated_place
from autotune.model import (
    Machine,
    Study,
    StudySpec,
    StudyStatus,
    Target,
)
from autotune.model.secrets import Secrets
from autotune.request import Request, Spaces
from autotune.space.environment import holding
from autotune.space.instances import load_instances
from autotune.space.space import Space
from autotune.storage import Store
from autotune.storage.folder import check_run_id, run_folder
from autotune.strategies import build_strategy, check_strategy
from autotune.yaml_reader import Source, read_yaml


@dataclass(frozen=True, kw_only=True)
class Launching:
    """How trials get their processes, which no result depends on."""

    cold: bool = False
    """Every rank is a fresh interpreter."""
    live: bool = False
    """Trials of the search may run in the ranks of the one before."""
    cluster: Executor | None = None
    """Launches them on other machines than this one."""
    cluster_flags: str = ""
    time_limit_s: float | None = None
    """Of this invocation; None is the study's own."""

    @property
    def flags(self) -> str:
        """As they are typed after a command."""
        return " --cold" * self.cold + " --live" * self.live + self.cluster_flags


def build_spec(request: Request, target: Target, space: Space, place: Place) -> StudySpec:
    """The study's specification.

    Raises FieldError for an unknown strategy and for a budget in which nothing could be confirmed.
    """
    check_strategy(request.strategy)
    budget_s = request.budget.in_seconds(place, target.nodes)
    if budget_s is None and request.max_trials is None:
        budget_s = DEFAULT_BUDGET_S
    if budget_s is not None:
        check_budget(budget_s, space.facts.device, request.window_s, request.budget.usd)
    return StudySpec(
        target=target,
        budget_s=budget_s,
        max_trials=request.max_trials,
        seed=request.seed,
        pinned=space.pinned,
        only=space.only,
        space=request.space.name,
        space_text=request.space.text,
        instances_text=request.instances_text,
        allow_lossy=request.allow_lossy,
        environment=space.facts.environment,
        landscape=request.landscape.name if request.landscape else "",
        landscape_text=request.landscape.text if request.landscape else "",
        window_s=request.window_s,
        search=request.strategy,
        own_workload=request.own_workload,
        output=str(request.output) if request.output else None,
        parallel_trials=request.parallel_trials,
    )


def new_run_id(now: datetime) -> str:
    """A run id that nothing else has."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def new_study(spec: StudySpec, machine: Machine, store: Store, run_id: str | None = None) -> Study:
    """A study under a run id of its own, or a given one, recorded in `store`."""
    now = datetime.now(UTC)
    study = Study(
        run_id=check_run_id(run_id or new_run_id(now)),
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

    Raises FieldError if there is none, or more than one, and UnreadableError if it is unreadable.
    """
    broken: list[UnreadableError] = []
    studies = list(store.studies(broken.append))
    ids = [study.run_id for study in studies]
    if run == "latest" and studies:
        return studies[-1]
    found = [s for s in studies if s.run_id == run] or [
        s for s in studies if run and s.run_id.startswith(run)
    ]
    if not found and (unreadable := [e for e in broken if run and e.key.startswith(run)]):
        raise unreadable[0]
    if not found:
        _check_submitted(store, run)
        rule = "is no run in this store" if ids else "can't be found: this store has no runs"
        raise FieldError("RUN", run, rule, alternatives=ids[-10:])
    if len(found) > 1:
        raise FieldError(
            "RUN", run, "fits more than one run", alternatives=[s.run_id for s in found]
        )
    return found[0]


def _check_submitted(store: Store, run: str) -> None:
    """Raise FieldError if `run` is one in a job of which nothing has come yet."""
    ids = {job.run_id for job in store.jobs(lambda _: None) if run and job.run_id.startswith(run)}
    for run_id in sorted(ids):
        raise FieldError(
            "RUN", run_id, "is submitted as a job, and nothing of it has come yet",
            hint=f"follow it with: autotune resume {run_id}",
        )  # fmt: skip


def runner(
    study: Study,
    place: Place,
    store: StudyRecords,
    observer: Observer,
    cancel: Event,
    environment: Mapping[str, str] | None = None,
    *,
    launching: Launching = Launching(),
    launches: bool = True,
) -> StudyRunner:
    """What runs `study` at `place`, with its records in `store`.

    Raises UserError if it `launches` trials and the study belongs to other surroundings.
    """
    around = os.environ if environment is None else environment
    simulated = _simulated(study, place, store) if study.spec.target.is_simulated else None
    if launches:
        seen = carried_environment(around) if launching.cluster else around
        _check_surroundings(study, place, {} if simulated else seen)
    space = _space_of(study, place)
    return StudyRunner(
        study=study,
        space=space,
        strategy=build_strategy(study.spec.search, space, study.spec.seed),
        executor=simulated
        or launching.cluster
        or LocalExecutor(
            machine=place.machine,
            cold=launching.cold,
            live=launching.live,
            workload=study.spec.own_workload,
        ),
        clock=simulated.clock if simulated else time.monotonic,
        store=store,
        folder=run_folder(study.run_id),
        observer=observer,
        cancel=cancel,
        secrets=Secrets.of(around),
        time_limit_s=launching.time_limit_s,
    )


def instance_sources(study: Study) -> list[Source]:
    """The machine types that were given with `study`."""
    text = study.spec.instances_text
    return [read_yaml(text, f"instances of run {study.run_id}")] if text else []


def _place_then(study: Study) -> Place:
    """Where `study` ran: this machine, or what is known of another one or of its landscape's."""
    name, sources = study.spec.target.instance, instance_sources(study)
    if study.spec.target.is_simulated:
        return simulated_place(landscape_of(study.spec), instances=sources)
    try:
        return find_place(name, instances=sources)
    except UserError:
        entry = load_instances(sources).get(name)
        return Place(machine=study.machine, instance=entry, is_here=False)


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """A study that was replayed from its stored trials."""

    end: StudyEnd
    space: Space


def recall(study: Study, store: Store) -> Recalled:
    """What the stored trials of `study` come to; nothing is launched, and nothing saved.

    Raises UserError if they can't be replayed.
    """
    running = runner(
        study, _place_then(study), store, Observer(), Event(),
        environment=study.spec.environment, launches=False,
    )  # fmt: skip
    known = {knob.name for knob in running.space.knobs}
    used = {name for trial in store.trials(study.run_id) for name in trial.candidate}
    if unknown := sorted(used - known):
        raise UserError(
            f"run {study.run_id} has knobs that this version doesn't know: {', '.join(unknown)}"
        )
    return Recalled(end=running.recall(), space=running.space)


def _check_surroundings(study: Study, place: Place, environment: Mapping[str, str]) -> None:
    """Raises UserError if new trials couldn't be compared with those of `study`."""
    spec = study.spec
    if spec.target.instance != place.machine.instance:
        raise UserError(
            f"run {study.run_id} was made on {spec.target.instance}, and this is "
            f"{place.machine.instance}: its trials can't be compared with new ones",
            hint="resume it on the machine it was made on, or start a new run here",
        )
    if spec.own_workload is not None and (changed := spec.own_workload.changed()):
        raise UserError(
            f"run {study.run_id}: {changed}; its trials can't be compared with new ones",
            hint="put the file back as it was, or start a new run",
        )
    knobs = Spaces(name=spec.space, text=spec.space_text).knobs()
    _check_environment(study, holding(knobs, environment))


def _space_of(study: Study, place: Place) -> Space:
    """The space that `study` was started with."""
    spec = study.spec
    spaces = Spaces(name=spec.space, text=spec.space_text)
    return Space(
        spaces.knobs(),
        place.facts(spec.target, workload=spec.own_workload, environment=spec.environment),
        pinned=spec.pinned,
        only=spec.only,
        searched=spaces.searched,
        allow_lossy=spec.allow_lossy,
    )


def _check_environment(study: Study, now: Mapping[str, str]) -> None:
    then = study.spec.environment
    changed = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
    if not changed:
        return
    what = ", ".join(
        f"{n} ({then.get(n, 'not set')} then, {now.get(n, 'not set')} now)" for n in changed
    )
    raise UserError(
        f"run {study.run_id} was made in another environment: {what}; its trials can't be "
        "compared with new ones",
        hint="set these variables as they were, or start a new run",
    )


def landscape_of(spec: StudySpec) -> LandscapeSource:
    """The landscape that a simulated study runs on, as it was when it began."""
    return LandscapeSource(name=spec.landscape, text=spec.landscape_text)


def _simulated(study: Study, place: Place, store: StudyRecords) -> SimulatedExecutor:
    """Its clock stands where the study's trials have brought it."""
    used_s = sum(trial.seconds for trial in store.trials(study.run_id))
    landscape = landscape_of(study.spec).landscape()
    return SimulatedExecutor(landscape, place.machine, clock=VirtualClock(now_s=used_s))

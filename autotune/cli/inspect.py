"""`autotune runs`, `show` and `best`: what the store knows."""

from collections.abc import Iterable
from typing import Annotated

import typer

from autotune.cli.documents import (
    SUBMITTED,
    job_document,
    kind,
    latest_jobs,
    status,
    study_document,
    trial_document,
    unreadable_document,
)
from autotune.cli.near import Wanted, near_misses
from autotune.cli.options import (
    BatchOption,
    Format,
    FormatOption,
    InstanceOption,
    NprocOption,
    StorageOption,
    WorkloadOption,
)
from autotune.cli.render import out, print_json, print_table, visible
from autotune.cli.report import print_left_behind, print_trials
from autotune.compose import find_study
from autotune.errors import UnreadableError, UserError
from autotune.executors.host import describe_machine
from autotune.exporters.document import to_document, to_yaml
from autotune.exporters.text import scope
from autotune.machines import LOCAL
from autotune.model import BestConfiguration, Job
from autotune.storage import Store, default_url, open_store


def runs(storage: StorageOption = None, format_: FormatOption = Format.TABLE) -> None:
    """List the runs in the store, the newest last."""
    broken: list[UnreadableError] = []
    with open_store(storage or default_url()) as store:
        studies = store.studies(broken.append)
        counts, leases = store.trial_counts(), store.leases(broken.append)
        jobs = latest_jobs(store.jobs(broken.append))
    known = {study.run_id for study in studies}
    submitted = [job for job in jobs.values() if job.run_id not in known]
    if format_ is Format.JSON:
        documents = [
            {
                **study_document(s, leases.get(s.run_id), jobs.get(s.run_id)),
                "trials": counts.get(s.run_id, 0),
            }
            for s in studies
        ]
        print_json([*documents, *map(job_document, submitted), *map(unreadable_document, broken)])
        return
    print_table(
        "Runs",
        ["run", "started", "kind", "status", "trials", "conclusion", "for", "narrowed"],
        [
            [
                study.run_id,
                f"{study.created_at:%Y-%m-%d %H:%M} UTC",
                kind(study),
                status(study, leases.get(study.run_id), jobs.get(study.run_id)),
                str(counts.get(study.run_id, 0)),
                study.conclusion.value if study.conclusion else "-",
                study.spec.target.describe(),
                scope(study.spec.pinned, study.spec.only) or "-",
            ]
            for study in studies
        ]
        + [_submitted_row(job) for job in submitted],
    )
    _tell(broken)


def _submitted_row(job: Job) -> list[str]:
    at = f"{job.submitted_at:%Y-%m-%d %H:%M} UTC"
    return [job.run_id, at, "measured", SUBMITTED, "0", "-", job.described, "-"]


def show(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run id, the beginning of one, or 'latest'."),
    ],
    storage: StorageOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Show a run: every trial with its settings, samples/s and outcome."""
    broken: list[UnreadableError] = []
    with open_store(storage or default_url()) as store:
        study = find_study(store, run)
        trials = store.trials(study.run_id, broken.append)
        lease = store.leases(broken.append).get(study.run_id)
        job = latest_jobs(store.jobs(broken.append)).get(study.run_id)
    if format_ is Format.JSON:
        documents = [trial_document(trial, study) for trial in trials]
        documents += map(unreadable_document, broken)
        print_json({"study": study_document(study, lease, job), "trials": documents})
        return
    print_trials(f"Run {study.run_id}: {study.spec.target.describe()}", trials)
    _say("")
    _say(f"kind        {kind(study)}")
    _say(f"machine     {study.machine.describe()}")
    _say(f"strategy    {study.spec.search}")
    _say(f"status      {status(study, lease, job)}")
    if narrowed := scope(study.spec.pinned, study.spec.only):
        _say(f"narrowed    {narrowed}")
    if study.conclusion:
        _say(f"conclusion  {study.conclusion.value}: {study.reason}")
    print_left_behind(trials)
    for trial in trials:
        if trial.log_tail and not trial.scored:
            _say(f"\ntrial {trial.number}, end of {trial.log_path}:")
            _say(trial.log_tail)
    _tell(broken)


def best(
    instance: InstanceOption = LOCAL,
    workload: WorkloadOption = "tiny",
    nproc: NprocOption = None,
    global_batch: BatchOption = None,
    storage: StorageOption = None,
    format_: FormatOption = Format.TABLE,
) -> None:
    """Print the stored answer for an instance and a workload, as YAML."""
    name = describe_machine().instance if instance == LOCAL else instance
    with open_store(storage or default_url()) as store:
        found = _find(store, name, workload, nproc, global_batch)
    if format_ is Format.JSON:
        print_json(to_document(found))
    else:
        typer.echo(to_yaml(found), nl=False)


def _find(
    store: Store, instance: str, workload: str, nproc: int | None, global_batch: int | None
) -> BestConfiguration:
    """The newest answer that fits. Raises UserError naming what there is instead."""
    broken: list[UnreadableError] = []
    every = store.bests(broken.append)
    wanted = Wanted(
        instance=instance, workload=workload, ranks_per_node=nproc, global_batch=global_batch
    )
    fitting = [best for best in every if not wanted.obstacles(best.target)]
    _tell(broken)
    if fitting:
        return max(fitting, key=lambda best: best.created_at)
    raise UserError(
        f"no stored answer for {wanted.describe()}; {near_misses(wanted, every)}",
        hint="make one with: autotune run --instance … --workload …",
    )


def _say(text: str) -> None:
    """A line of what the store holds."""
    out().print(text, markup=False)


def _tell(broken: Iterable[UnreadableError]) -> None:
    """Name what was left out because it can't be read."""
    for error in broken:
        typer.echo(visible(f"unreadable: {error}\nhint: {error.hint}"), err=True)

"""`autotune verify`: whether a saved configuration still holds on this machine."""

import os
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from autotune.cli.interrupts import interruptible
from autotune.cli.on_ray import ClusterOptions, chosen_cluster
from autotune.cli.options import (
    AddressOption,
    ColdOption,
    ExecutorName,
    ExecutorOption,
    Format,
    FormatOption,
    ShareOption,
    duration,
)
from autotune.cli.render import out, print_json, rate_text, ratio_text
from autotune.cli.saved_file import read_saved
from autotune.cli.venue import Venue, venue
from autotune.compose import Launching
from autotune.errors import FieldError, UserError
from autotune.executors.base import LaunchEnd
from autotune.executors.own_folder import OwnFolder
from autotune.executors.rank_environment import carried_environment
from autotune.exporters.document import to_yaml
from autotune.exporters.files import check_writable, write_atomically
from autotune.exporters.fingerprint import changes, misfit
from autotune.exporters.script_text import script_command
from autotune.loop.launcher import measurement_plan
from autotune.loop.verify import Arm, Verification, Verified, Verifier, restamped
from autotune.machines import LOCAL, Place
from autotune.model import BestConfiguration, Conclusion, UserWorkload, encode
from autotune.request import Spaces
from autotune.scoring.design import MAX_ROUNDS, MIN_ROUNDS
from autotune.scoring.score import score
from autotune.space.environment import holding
from autotune.space.facts import Facts
from autotune.space.space import Space
from autotune.user_script import workload_of
from autotune.user_workload import find_user_workload

EXIT_NO_LONGER_HOLDS = 4
EXIT_NOT_KNOWN = 5
EXIT_INTERRUPTED = 130
_CODES = {
    Verification.HOLDS: 0,
    Verification.NO_LONGER_HOLDS: EXIT_NO_LONGER_HOLDS,
    Verification.NOT_KNOWN: EXIT_NOT_KNOWN,
}
_SENTENCES = {
    Verification.HOLDS: "It still holds.",
    Verification.NO_LONGER_HOLDS: "It no longer holds.",
    Verification.NOT_KNOWN: "Whether it still holds is not known.",
}


def verify(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A YAML file that 'autotune run' saved.")
    ],
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds", min=MIN_ROUNDS, max=MAX_ROUNDS, help="Launches of each of the two."
        ),
    ] = MIN_ROUNDS,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="DURATION",
            help="Length of a measured window, of which a launch has five. Default: 0.5s.",
        ),
    ] = None,
    update: Annotated[
        bool,
        typer.Option("--update", help="If it holds, write what was measured into the file."),
    ] = False,
    trust_script: Annotated[
        bool,
        typer.Option(
            "--trust-script", help="Start the script that the file names, with its arguments."
        ),
    ] = False,
    format_: FormatOption = Format.TABLE,
    cold: ColdOption = False,
    share_machine: ShareOption = False,
    executor: ExecutorOption = ExecutorName.LOCAL,
    address: AddressOption = None,
) -> None:
    """Launch a saved configuration and its baseline again, in turns.

    Exit codes: 0 it still holds, 4 it no longer holds, 5 not known, 2 usage, 130 interrupted.
    """
    plan = measurement_plan(duration(window, "--window"))
    best = read_saved(file)
    cluster = _cluster(best, executor, address, share_machine=share_machine)
    _check_improves(best, file)
    if update:
        check_writable(file)
    own = _own_workload(best, file, trusted=trust_script)
    cancel = Event()
    with (
        venue(
            LOCAL, instances=[], launching=Launching(cold=cold), cluster=cluster, workload=own
        ) as where,
        where.using(share=share_machine),
        where.executor(own) as launcher,
        OwnFolder("verify-") as folder,
        interruptible(lambda text: typer.echo(text, err=True), cancel),
    ):
        place = _place(best, file, where)
        around = os.environ if cluster is None else carried_environment(os.environ)
        facts, baseline = _baseline(best, place, own, around)
        check_differs(best, baseline, file)
        for notice in [*where.notices, *changes(best, place.machine, place.links, {})]:
            typer.echo(f"notice: {notice}", err=True)
        found = Verifier(
            best=best, baseline=baseline, workload=own, executor=launcher, folder=folder.path,
            rounds=rounds, plan=plan, cancel=cancel, on_launch=_say,
        ).run()  # fmt: skip
    if cancel.is_set():
        raise typer.Exit(EXIT_INTERRUPTED)
    is_updated = update and found.verification is Verification.HOLDS
    if is_updated:
        write_atomically(file, to_yaml(restamped(best, found, facts)))
    _print(found, best, file if is_updated else None, format_)
    raise typer.Exit(_CODES[found.verification])


def _cluster(
    best: BestConfiguration, executor: ExecutorName, address: str | None, *, share_machine: bool
) -> ClusterOptions | None:
    """With as many nodes as the study had. Raises FieldError for options that don't go together."""
    if executor is ExecutorName.SIMULATED:
        raise FieldError("--executor", executor.value, "measures nothing")
    nodes = best.target.nodes if executor is ExecutorName.RAY else None
    return chosen_cluster(executor, nodes, address, {"--share-machine": share_machine})


def _check_improves(best: BestConfiguration, file: Path) -> None:
    if best.conclusion is Conclusion.KEEP_DEFAULTS:
        raise _nothing_to_compare(f"{file}: says to keep the defaults")


def check_differs(best: BestConfiguration, baseline: Arm, file: Path) -> None:
    """Raises UserError for the baseline's own settings.

    A study that was cut off early may have saved them, as all that it knew.
    """
    if (best.settings, dict(best.environment)) == (baseline.settings, dict(baseline.environment)):
        raise _nothing_to_compare(f"{file}: has the baseline's own settings")


def _nothing_to_compare(what: str) -> UserError:
    return UserError(
        f"{what}, so there is nothing to compare them with",
        hint="look for something better with: autotune run",
    )


def _own_workload(best: BestConfiguration, file: Path, *, trusted: bool) -> UserWorkload | None:
    """What of the user's is trained; None if it is built in. Raises UserError.

    A file from somebody else doesn't decide which script is started.
    """
    workload = workload_of(best)
    if workload is None:
        return find_user_workload(best.target.workload)
    if not trusted:
        raise UserError(
            f"{file}: names a script to start: {script_command(best)}",
            hint="if that is yours: --trust-script",
        )
    if changed := workload.changed():
        raise UserError(f"{file}: {changed}", hint="run a study of the script as it is now")
    return workload


def _place(best: BestConfiguration, file: Path, where: Venue) -> Place:
    """The machine that `where` is, if `best` is for it. Raises UserError."""
    if difference := misfit(best, where.place.machine):
        raise UserError(
            f"{file}: {difference}", hint="verify it on such a machine, or run a study here"
        )
    return where.find(best.target.instance)


def _baseline(
    best: BestConfiguration,
    place: Place,
    workload: UserWorkload | None,
    environment: Mapping[str, str],
) -> tuple[Facts, Arm]:
    """The defaults with what the study's user held, as the study had them."""
    knobs = Spaces().knobs()
    facts = place.facts(best.target, workload=workload, environment=holding(knobs, environment))
    space = Space(knobs, facts, pinned=best.evidence.pinned, allow_lossy=True)
    candidate = space.baseline()
    arm = Arm(
        name="baseline",
        settings=space.settings(candidate),
        environment=space.environment(candidate),
    )
    return facts, arm


def _say(number: int, arm: str, end: LaunchEnd) -> None:
    rate = f"{score(end.measurement).samples_per_second:,.1f} samples/s" if end.measurement else ""
    typer.echo(f"round {number + 1}  {arm:8}  {rate or end.outcome.value}", err=True)


def _print(found: Verified, best: BestConfiguration, updated: Path | None, format_: Format) -> None:
    then = best.evidence.ratio
    if format_ is Format.JSON:
        print_json(
            {
                "verification": found.verification.value,
                "reason": found.reason,
                "then": encode(then),
                "now": encode(found.ratio),
                "baseline": encode(found.reading("baseline")),
                "winner": encode(found.reading("winner")),
                "updated": None if updated is None else str(updated),
            }
        )
        return
    console = out()
    console.print(_SENTENCES[found.verification], markup=False)
    console.print(f"  because    {found.reason}", markup=False)
    for name in ("baseline", "winner"):
        if (reading := found.reading(name)) is not None:
            console.print(f"  {name:10} {rate_text(reading)}", markup=False)
    if found.ratio is not None:
        console.print(f"  gain now   {ratio_text(found.ratio)}", markup=False)
    if then is not None:
        console.print(f"  gain then  {ratio_text(then)}", markup=False)
    if updated is not None:
        console.print(f"  updated    {updated}", markup=False)

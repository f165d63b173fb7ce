"""Makes a launch of a step, has it run, and makes a record of how it ended."""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

from autotune.executors.base import Executor, Launch, LaunchEnd, OnWindow
from autotune.loop import limits
from autotune.loop.ledger import Ledger
from autotune.loop.plan import Step
from autotune.model import MeasurementPlan, Phase, Study, Trial, TrialSpec
from autotune.model.secrets import Secrets
from autotune.space.space import Space


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A launch that has ended. Times are in seconds."""

    step: Step
    launch: Launch
    end: LaunchEnd
    started_at: datetime
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """Knows of a study what each of its launches needs."""

    study: Study
    space: Space
    executor: Executor
    folder: Path
    """For the trials' own folders."""
    cancel: Event
    clock: Callable[[], float] = time.monotonic
    secrets: Secrets = field(default_factory=Secrets)
    """Kept out of what is recorded of trials."""

    def prepare(
        self,
        step: Step,
        ledger: Ledger,
        name: str,
        remaining_s: float | None,
        wait_s: float | None = None,
    ) -> Launch:
        """A launch of `step` in the folder `name`, by what is known so far.

        `remaining_s` is left for trials, `wait_s` for waiting before this one; None is no limit.
        """
        spec = self.study.spec
        settings = self.space.settings(step.candidate)
        first_step_s = limits.first_step_limit_s(ledger, settings)
        return Launch(
            spec=TrialSpec(
                trial_id=f"{self.study.run_id}-{name.removeprefix(_PREFIX)}",
                workload=spec.target.workload,
                workload_folder=spec.own_workload.folder if spec.own_workload else "",
                script=spec.own_workload.script if spec.own_workload else None,
                settings=settings,
                environment=self.space.environment(step.candidate),
                device=self.space.facts.device,
                seed=spec.seed,
                plan=measurement_plan(
                    spec.window_s,
                    # It takes some steps more, which the search doesn't pay for.
                    communication=step.phase is Phase.CONFIRM,
                ),
                collective_timeout_s=limits.collective_timeout_s(first_step_s),
            ),
            nodes=spec.target.nodes,
            ranks_per_node=spec.target.ranks_per_node,
            directory=self.folder / name,
            time_limit_s=limits.time_limit_s(ledger, remaining_s),
            first_step_limit_s=first_step_s,
            wait_limit_s=wait_s,
            # What is launched again is to show how launches differ.
            fresh=step.phase is not Phase.SEARCH,
        )

    def run(self, step: Step, launch: Launch, on_window: OnWindow) -> Ended:
        """Have the executor run it. What it prepares before takes no time of the trial's."""
        started_at, started = datetime.now(UTC), self.clock()
        end = self.executor.run(launch, on_window, self.cancel)
        seconds = self.clock() - started - end.prepared_s
        started_at += timedelta(seconds=end.prepared_s)
        return Ended(step=step, launch=launch, end=end, started_at=started_at, seconds=seconds)

    def record(self, ended: Ended, number: int) -> Trial:
        """The trial that has ended as the study's `number`-th, its logs in a folder named so."""
        end, spec = ended.end, ended.launch.spec
        return Trial(
            run_id=self.study.run_id,
            number=number,
            phase=ended.step.phase,
            candidate=ended.step.candidate,
            settings=spec.settings,
            environment=spec.environment,
            outcome=end.outcome,
            reason=self.secrets.redacted(end.reason),
            failed_rank=end.failed_rank,
            started_at=ended.started_at,
            seconds=ended.seconds,
            measurement=end.measurement,
            log_path=_moved(end.log_path, ended.launch.directory, self.folder / trial_name(number)),
            log_tail=self.secrets.redacted(end.log_tail),
            left_behind=end.left_behind,
        )


def trial_name(number: int) -> str:
    """Of a trial's folder."""
    return f"{_PREFIX}{number:04d}"


def measurement_plan(window_s: float | None, *, communication: bool = False) -> MeasurementPlan:
    """How trials measure; `window_s` is None for the default."""
    if window_s is None:
        return MeasurementPlan(communication=communication)
    return MeasurementPlan(window_s=window_s, communication=communication)


def _moved(log_path: str, directory: Path, final: Path) -> str:
    """Where `log_path` is once `directory` is called `final`, if it can be."""
    if directory == final or not directory.is_dir():
        return log_path
    with suppress(OSError):
        # What a killed controller has left.
        shutil.rmtree(final, ignore_errors=True)
        directory.rename(final)
        return log_path.replace(str(directory.absolute()), str(final.absolute()))
    return log_path


_PREFIX = "trial-"

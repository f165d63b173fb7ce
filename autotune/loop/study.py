"""The tuner loop: ask, launch, watch, score, tell, store. The only place where they all meet."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from autotune.executors.base import Executor, Launch, LaunchEnd
from autotune.loop import limits
from autotune.loop.answer import best_configuration, evidence
from autotune.loop.conclude import Decision, decide, decide_early
from autotune.loop.failures import Streak, stuck
from autotune.loop.fit import FittingProposals, LeftOut, memory_knowledge
from autotune.loop.ledger import Ledger
from autotune.loop.observer import Observer, TrialStart
from autotune.loop.plan import Plan, Step
from autotune.loop.proposals import known_in_disguise
from autotune.loop.race import Race
from autotune.loop.records import StudyRecords
from autotune.model import (
    BestConfiguration,
    Candidate,
    Conclusion,
    Evidence,
    MeasurementPlan,
    Phase,
    Study,
    StudyStatus,
    Trial,
    TrialSpec,
    Window,
)
from autotune.model.protocol import Verdict
from autotune.model.secrets import Secrets
from autotune.scoring.drift import Drift
from autotune.scoring.noise import Noise
from autotune.space.memory import Capacity
from autotune.space.space import Space
from autotune.strategies.base import SearchStrategy


@dataclass(frozen=True, kw_only=True)
class StudyEnd:
    """How an invocation ended."""

    decision: Decision
    best: BestConfiguration | None
    """What was saved; None when no candidate works, or none has been measured yet, and of a
    simulated study."""
    evidence: Evidence | None
    """What speaks for the decision; None when no candidate works, or none has been measured yet."""
    interrupted: bool
    stuck: bool
    """Trials can't be run on this machine any more."""
    search_ended: str
    """Why the search went no further, as a clause; empty if there was none."""
    noise: Noise | None
    """None before anything was launched twice."""
    drift: Drift
    skipped: Mapping[Candidate, str]
    """Proposals that needed no launch, each with the reason."""
    left_out: LeftOut
    """Those among them that can't, or might not, fit into memory."""
    no_effect: Mapping[str, str]
    """Settings, as `knob=value`, that did nothing, each with what was seen in their place."""


@dataclass(kw_only=True)
class StudyRunner:
    """Runs one study to its end, from wherever its stored trials have brought it."""

    study: Study
    space: Space
    strategy: SearchStrategy
    executor: Executor
    store: StudyRecords
    folder: Path
    """For the trials' own folders."""
    observer: Observer = field(default_factory=Observer)
    cancel: Event = field(default_factory=Event)
    clock: Callable[[], float] = time.monotonic
    secrets: Secrets = field(default_factory=Secrets)
    """Kept out of what is stored of trials."""
    capacity: Capacity | None = None
    """Memory of a rank; None is what the executor's machine has."""

    def run(self) -> StudyEnd:
        """Run what is left of the study, and save its answer."""
        plan, ledger, proposals = self._fresh()
        proposals.replay(list(self.store.trials(self.study.run_id)), ledger)
        used_s, known = ledger.elapsed_s, len(ledger.trials)
        started = self.clock()
        while not self.cancel.is_set() and not stuck(ledger.trials[known:]):
            elapsed_s = used_s + self.clock() - started
            step = plan.next_step(ledger, elapsed_s, lambda: proposals.ask(ledger))
            if step is None:
                break
            trial = self._launch(step, plan, ledger, elapsed_s)
            self.store.add_trial(trial)
            ledger.add(trial)
            proposals.tell(trial, ledger)
            self.observer.trial_ended(trial)
        end = self._end(
            plan,
            ledger,
            proposals,
            streak=stuck(ledger.trials[known:]),
            interrupted=self.cancel.is_set(),
        )
        self._save(end)
        return end

    def recall(self) -> StudyEnd:
        """What the stored trials come to: nothing is launched, and nothing is saved."""
        plan, ledger, proposals = self._fresh()
        trials = list(self.store.trials(self.study.run_id))
        confirming = (i for i, trial in enumerate(trials) if trial.phase is Phase.CONFIRM)
        searched = next(confirming, len(trials))
        proposals.replay(trials[:searched], ledger)
        # The search said once more whether it had anything left.
        plan.next_step(ledger, ledger.elapsed_s, lambda: proposals.ask(ledger))
        proposals.replay(trials[searched:], ledger)
        unfinished = self.study.status is not StudyStatus.FINISHED
        return self._end(plan, ledger, proposals, streak=None, interrupted=unfinished)

    def _fresh(self) -> tuple[Plan, Ledger, FittingProposals]:
        """What decides, before any trial."""
        plan = Plan(
            spec=self.study.spec,
            baseline=self.space.baseline(),
            strategy=self.strategy,
        )
        return plan, Ledger(self.space), self._proposals(plan)

    def _proposals(self, plan: Plan) -> FittingProposals:
        return FittingProposals(
            strategy=self.strategy,
            judges=[known_in_disguise],
            memory=memory_knowledge(
                self.space, plan.spec.target.workload, self.executor.machine(), self.capacity
            ),
        )

    def _launch(self, step: Step, plan: Plan, ledger: Ledger, elapsed_s: float) -> Trial:
        spec = self.study.spec
        number = ledger.trials[-1].number + 1 if ledger.trials else 0
        remaining_s = None if spec.budget_s is None else max(0.0, spec.budget_s - elapsed_s)
        self.observer.trial_started(
            TrialStart(number=number, step=step, baseline=plan.baseline, remaining_s=remaining_s)
        )
        settings = self.space.settings(step.candidate)
        first_step_s = limits.first_step_limit_s(ledger, settings)
        launch = Launch(
            spec=TrialSpec(
                trial_id=f"{self.study.run_id}-{number:04d}",
                workload=spec.target.workload,
                workload_folder=spec.own_workload.folder if spec.own_workload else "",
                script=spec.own_workload.script if spec.own_workload else None,
                settings=settings,
                environment=self.space.environment(step.candidate),
                device=self.space.facts.device,
                seed=spec.seed,
                plan=self._measurement_for(step.phase),
                collective_timeout_s=limits.collective_timeout_s(first_step_s),
            ),
            nodes=spec.target.nodes,
            ranks_per_node=spec.target.ranks_per_node,
            directory=self.folder / f"trial-{number:04d}",
            time_limit_s=limits.time_limit_s(ledger, remaining_s),
            first_step_limit_s=first_step_s,
            # What is launched again is to show how launches differ.
            fresh=step.phase is not Phase.SEARCH,
        )
        started_at, started = datetime.now(UTC), self.clock()
        race = Race(ledger=ledger, phase=step.phase)
        end = self.executor.run(launch, lambda window: self._on_window(race, window), self.cancel)
        seconds = self.clock() - started
        trial = _record(self.study.run_id, number, step, launch, end, started_at, seconds)
        return replace(
            trial,
            reason=self.secrets.redacted(trial.reason),
            log_tail=self.secrets.redacted(trial.log_tail),
        )

    def _measurement_for(self, phase: Phase) -> MeasurementPlan:
        # It takes some steps more, which the search doesn't pay for.
        plan = measurement_plan(self.study.spec.window_s)
        return replace(plan, communication=phase is Phase.CONFIRM)

    def _on_window(self, race: Race, window: Window) -> Verdict:
        self.observer.window_closed(window)
        return Verdict.STOP if self.cancel.is_set() else race.verdict(window)

    def _end(
        self,
        plan: Plan,
        ledger: Ledger,
        proposals: FittingProposals,
        *,
        streak: Streak | None,
        interrupted: bool,
    ) -> StudyEnd:
        is_stuck = streak is not None
        if interrupted:
            decision = decide_early(plan, ledger, "interrupted")
        elif is_stuck:
            why = f"stopped, since trials can't be run here: {streak}"
            decision = decide_early(plan, ledger, why)
        else:
            decision = decide(plan, ledger, self.space.facts.device)
        exhausted = self.strategy.exhausted if proposals.exhausted else ""
        found = decision.conclusion is not Conclusion.NO_CANDIDATE
        best = None
        if found and not plan.spec.target.is_simulated:
            best = best_configuration(
                plan,
                ledger,
                decision,
                self.space,
                run_id=self.study.run_id,
                now=datetime.now(UTC),
            )
        return StudyEnd(
            decision=decision,
            best=best,
            evidence=(evidence(plan, ledger, decision, self.space.facts.device) if found else None),
            interrupted=interrupted,
            stuck=is_stuck,
            search_ended="" if interrupted or is_stuck else plan.why_ended(ledger, exhausted),
            drift=ledger.drift,
            noise=ledger.noise if ledger.has_repeats else None,
            skipped=proposals.skipped,
            left_out=proposals.left_out(ledger),
            no_effect=ledger.effects.idle.summary(),
        )

    def _save(self, end: StudyEnd) -> None:
        if end.best is not None:
            self.store.save_best(end.best)
        conclusion, is_early = end.decision.conclusion, end.interrupted or end.stuck
        found = conclusion is not Conclusion.NO_CANDIDATE
        self.store.update_study(
            self.study.run_id,
            status=StudyStatus.INTERRUPTED if is_early else StudyStatus.FINISHED,
            # An early end says nothing of what works.
            conclusion=conclusion if found or not is_early else None,
            reason=end.decision.reason,
        )


def measurement_plan(window_s: float | None) -> MeasurementPlan:
    """How trials measure; `window_s` is None for the default."""
    return MeasurementPlan() if window_s is None else MeasurementPlan(window_s=window_s)


def _record(
    run_id: str,
    number: int,
    step: Step,
    launch: Launch,
    end: LaunchEnd,
    started_at: datetime,
    seconds: float,
) -> Trial:
    return Trial(
        run_id=run_id,
        number=number,
        phase=step.phase,
        candidate=step.candidate,
        settings=launch.spec.settings,
        environment=launch.spec.environment,
        outcome=end.outcome,
        reason=end.reason,
        failed_rank=end.failed_rank,
        started_at=started_at,
        seconds=seconds,
        measurement=end.measurement,
        log_path=end.log_path,
        log_tail=end.log_tail,
        left_behind=end.left_behind,
    )

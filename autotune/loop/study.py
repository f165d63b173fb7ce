"""The tuner loop: ask, launch, watch, score, tell, store. The only place where they all meet."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event, Lock

from autotune.executors.base import Executor, OnWindow
from autotune.loop.answer import best_configuration, evidence
from autotune.loop.conclude import decide, decide_early, is_left_open
from autotune.loop.course import Course
from autotune.loop.crew import Crew
from autotune.loop.decision import Decision
from autotune.loop.failures import Streak, stuck
from autotune.loop.fit import FittingProposals, LeftOut, memory_knowledge
from autotune.loop.history import covered_s
from autotune.loop.lanes import why_not_at_once
from autotune.loop.launcher import Ended, Launcher, trial_name
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
    Phase,
    Study,
    StudyStatus,
    Window,
)
from autotune.model.protocol import Verdict
from autotune.model.secrets import Secrets
from autotune.scoring import distributions
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
    out_of_time: bool
    """Interrupted, by the time limit of the invocation."""
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
    time_limit_s: float | None = None
    """Of this invocation. What can't be decided by then is left for a resume."""

    def __post_init__(self) -> None:
        self._lock = Lock()
        """Of what the study knows, which running trials are judged by."""
        self._prepared_s = 0.0
        """In which nothing ran, for agents and the like weren't there yet."""
        self._launcher = Launcher(
            study=self.study,
            space=self.space,
            executor=self.executor,
            folder=self.folder,
            cancel=self.cancel,
            clock=self.clock,
            secrets=self.secrets,
        )

    def run(self) -> StudyEnd:
        """Run what is left of the study, and save its answer."""
        # While the warm parent imports torch; else it would be between two trials.
        distributions.load()
        course = self._fresh()
        course.replay(list(self.store.trials(self.study.run_id)))
        known = len(course.ledger.trials)
        with Crew[Ended](self.executor.at_once) as crew:
            self._run(course, crew, known)
        streak = stuck(course.ledger.trials[known:])
        end = self._end(course, streak=streak, interrupted=self.cancel.is_set())
        self._save(end)
        return end

    def recall(self) -> StudyEnd:
        """What the stored trials come to: nothing is launched, and nothing is saved."""
        course = self._fresh()
        course.replay(list(self.store.trials(self.study.run_id)))
        # Without a confirmation, the search was asked once more than trials were launched.
        course.look_ahead(self._used_s(course.ledger))
        unfinished = self.study.status is not StudyStatus.FINISHED
        return self._end(course, streak=None, interrupted=unfinished)

    def _fresh(self) -> Course[FittingProposals]:
        """What decides, before any trial."""
        plan = Plan(
            spec=self.study.spec,
            baseline=self.space.baseline(),
            strategy=self.strategy,
        )
        return Course(plan=plan, ledger=Ledger(self.space), proposals=self._proposals(plan))

    def _proposals(self, plan: Plan) -> FittingProposals:
        return FittingProposals(
            strategy=self.strategy,
            judges=[known_in_disguise],
            memory=memory_knowledge(
                self.space, plan.spec.target.workload, self.executor.machine(), self.capacity
            ),
        )

    def _run(self, course: Course[FittingProposals], crew: Crew[Ended], known: int) -> None:
        """Until nothing is left to launch, or may be."""
        used_s, started = self._used_s(course.ledger), self.clock()
        if self.time_limit_s is not None:
            course.plan = replace(course.plan, until_s=used_s + self.time_limit_s)
        unchecked = self.executor.at_once > 1
        while True:
            while self._may_launch(course, known):
                elapsed_s = used_s + self.clock() - started - self._prepared_s
                step = course.next(elapsed_s)
                if step is None:
                    break
                if unchecked and step.phase is Phase.SEARCH:
                    self._check_lanes(course, crew)
                    unchecked = False
                self._launch(step, course, crew, elapsed_s)
            if not course.under_way:
                return
            self._take_in(crew.next(), course)

    def _may_launch(self, course: Course[FittingProposals], known: int) -> bool:
        if self.cancel.is_set() or stuck(course.ledger.trials[known:]):
            return False
        return len(course.under_way) < self.executor.at_once

    def _used_s(self, ledger: Ledger) -> float:
        """Seconds that the trials so far have taken, those at once counted once."""
        if self.study.spec.parallel_trials == 1:
            return ledger.elapsed_s
        return covered_s(ledger.trials)

    def _check_lanes(self, course: Course[FittingProposals], crew: Crew[Ended]) -> None:
        """See that trials at once show the same as alone; else they run alone."""
        groups = self.executor.at_once
        self.observer.noticed(f"measuring the baseline on {groups} groups of nodes at once")
        baseline, ledger = course.plan.baseline, course.ledger
        race = partial(self._raced, ledger)
        why_not = why_not_at_once(self._launcher, crew, ledger, baseline, race)
        if why_not and not self.cancel.is_set():
            self.executor.narrow()
            self.observer.noticed(f"trials run one at a time from now on: {why_not}")

    def _launch(
        self, step: Step, course: Course[FittingProposals], crew: Crew[Ended], elapsed_s: float
    ) -> None:
        """Start the trial of `step`, which counts as under way."""
        remaining_s = _left_s(course.plan.limit_s, elapsed_s)
        number, place = course.next_number, len(course.under_way) - 1
        start = TrialStart(
            number=number + place,
            step=step,
            baseline=course.plan.baseline,
            remaining_s=remaining_s,
        )
        # Beside others it gets its number, and its folder that name, when it ends.
        may_be_beside = step.phase is Phase.SEARCH and self.executor.at_once > 1
        name = trial_name(number) + (f"-{place}" if may_be_beside else "")
        with self._lock:
            self.observer.trial_started(start)
        # A budget doesn't count what is waited for, a time limit does.
        wait_s = _left_s(course.plan.until_s, elapsed_s)
        launch = self._launcher.prepare(step, course.ledger, name, remaining_s, wait_s)
        judged = self._raced(course.ledger, step, self.observer)
        crew.start(partial(self._launcher.run, step, launch, judged))

    def _uncount(self, seconds: float, course: Course[FittingProposals]) -> None:
        """Take what was waited for before a trial from the study's time, not from a person's."""
        self._prepared_s += seconds
        until_s = course.plan.until_s
        if seconds and until_s is not None:
            course.plan = replace(course.plan, until_s=until_s - seconds)

    def _take_in(self, ended: Ended, course: Course[FittingProposals]) -> None:
        trial = self._launcher.record(ended, course.next_number)
        if trial.phase is not Phase.SEARCH or self.executor.at_once == 1:
            self._uncount(ended.end.prepared_s, course)
        self.store.add_trial(trial)
        with self._lock:
            course.ended(ended.step, trial)
            self.observer.trial_ended(trial)

    def _raced(self, ledger: Ledger, step: Step, observer: Observer | None = None) -> OnWindow:
        """What a trial of `step` is told of its windows, from whatever thread."""
        race = Race(ledger=ledger, phase=step.phase)

        def on_window(window: Window) -> Verdict:
            with self._lock:
                if observer is not None:
                    observer.window_closed(step, window)
                return Verdict.STOP if self.cancel.is_set() else race.verdict(window)

        return on_window

    def _end(
        self, course: Course[FittingProposals], *, streak: Streak | None, interrupted: bool
    ) -> StudyEnd:
        plan, ledger, proposals = course.plan, course.ledger, course.proposals
        is_stuck = streak is not None
        exhausted = self.strategy.exhausted if proposals.exhausted else ""
        if interrupted:
            decision = decide_early(plan, ledger, "interrupted")
        elif is_stuck:
            why = f"stopped, since trials can't be run here: {streak}"
            decision = decide_early(plan, ledger, why)
        else:
            decision = decide(plan, ledger, self.space.facts.device, exhausted)
        out_of_time = not (interrupted or is_stuck) and is_left_open(
            plan, ledger, decision, exhausted
        )
        if out_of_time and decision.conclusion is not Conclusion.UNCONFIRMED:
            decision = decide_early(plan, ledger, "the time limit has come")
        interrupted = interrupted or out_of_time
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
            out_of_time=out_of_time,
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


def _left_s(limit_s: float | None, elapsed_s: float) -> float | None:
    """Seconds until `limit_s`; None without one."""
    return None if limit_s is None else max(0.0, limit_s - elapsed_s)

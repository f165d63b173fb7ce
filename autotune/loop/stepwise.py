"""A study whose trials somebody else launches: asked for the next one, told what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from autotune.loop.conclude import decide, decide_early
from autotune.loop.course import Course
from autotune.loop.decision import Decision
from autotune.loop.ledger import Ledger
from autotune.loop.plan import Plan, Step
from autotune.loop.proposals import Proposals, known_in_disguise
from autotune.loop.race import Race
from autotune.model import (
    Candidate,
    Measurement,
    Outcome,
    Phase,
    StudySpec,
    Trial,
    Window,
    decode,
    encode,
)
from autotune.model.protocol import Verdict
from autotune.space.space import Space
from autotune.strategies.base import SearchStrategy


@dataclass(kw_only=True)
class Pending:
    """A trial that is under way."""

    step: Step
    started_at: datetime
    rates: dict[int, float] = field(default_factory=dict)
    """Samples/s of its windows, by their number."""
    losses: tuple[float, ...] = ()
    verdict: Verdict = Verdict.GO


class Stepwise:
    """A `Course` whose trials are known by keys, and only by the rates that they report."""

    def __init__(self, spec: StudySpec, space: Space, strategy: SearchStrategy) -> None:
        """`strategy` is a new one."""
        self._space = space
        self._spec = spec
        self._course = Course(
            plan=Plan(spec=spec, baseline=space.baseline(), strategy=strategy),
            ledger=Ledger(space),
            proposals=Proposals(strategy=strategy, judges=[known_in_disguise]),
        )
        self.pending: dict[str, Pending] = {}
        self.is_over = False

    def suggest(self, key: str) -> Step | None:
        """What to launch as trial `key`; None if nothing can be, now or (`is_over`) ever."""
        step = self._course.next(self._ledger.elapsed_s)
        if step is None:
            self.is_over = not self.pending
            return None
        self.pending[key] = Pending(step=step, started_at=datetime.now(UTC))
        return step

    def window(self, key: str, number: int, rate: float, loss: float | None = None) -> Verdict:
        """A window of trial `key` closed at `rate` samples/s; the same one may be told twice."""
        trial = self.pending[key]
        if number not in trial.rates:
            trial.rates[number] = rate
            trial.losses += () if loss is None else (loss,)
            race = Race(ledger=self._ledger, phase=trial.step.phase)
            for window in self._windows(trial):
                trial.verdict = race.verdict(window)
        return trial.verdict

    def complete(self, key: str, failure: Outcome | None = None) -> None:
        """Trial `key` has ended, with what its windows were, or with `failure`."""
        pending = self.pending.pop(key)
        outcome = failure or (Outcome.COMPLETED if pending.rates else Outcome.NO_METRIC)
        if outcome is Outcome.COMPLETED and pending.verdict is Verdict.STOP:
            outcome = Outcome.PRUNED
        self._course.ended(pending.step, self._record(pending, outcome))

    def decision(self) -> Decision:
        """What the trials so far allow to say."""
        if self.is_over:
            plan, proposals = self._course.plan, self._course.proposals
            exhausted = plan.strategy.exhausted if proposals.exhausted else ""
            return decide(plan, self._ledger, self._space.facts.device, exhausted)
        return decide_early(self._course.plan, self._ledger, "the study hasn't ended")

    @property
    def trials(self) -> list[Trial]:
        """Those that have ended."""
        return self._ledger.trials

    def state(self) -> dict[str, Any]:
        """What `restore` needs, as JSON has it."""
        open_trials = {
            key: {"phase": one.step.phase.value, "candidate": encode(one.step.candidate)}
            for key, one in self.pending.items()
        }
        return {"trials": encode(self.trials), "pending": open_trials}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Have a study that has just begun go on where `state` was taken."""
        trials = [decode(Trial, one) for one in state["trials"]]
        self._course.replay(trials)
        for key, one in state["pending"].items():
            candidate = decode(Candidate, one["candidate"])
            step = Step(phase=Phase(one["phase"]), candidate=candidate)
            self._course.under_way.append(step)
            self.pending[key] = Pending(step=step, started_at=datetime.now(UTC))

    @property
    def _ledger(self) -> Ledger:
        return self._course.ledger

    def _windows(self, trial: Pending) -> tuple[Window, ...]:
        """Each counts as a step of the global batch at its rate."""
        samples = self._spec.target.global_batch
        return tuple(
            Window(index=index, steps=1, samples=samples, seconds=samples / rate)
            for index, (_, rate) in enumerate(sorted(trial.rates.items()))
        )

    def _record(self, pending: Pending, outcome: Outcome) -> Trial:
        candidate, now = pending.step.candidate, datetime.now(UTC)
        return Trial(
            run_id="stepwise",
            number=self._course.next_number,
            phase=pending.step.phase,
            candidate=candidate,
            settings=self._space.settings(candidate),
            environment=self._space.environment(candidate),
            outcome=outcome,
            reason="" if outcome.has_worked else "its launcher says so",
            failed_rank=None,
            started_at=pending.started_at,
            seconds=(now - pending.started_at).total_seconds(),
            measurement=self._measurement(pending) if outcome.has_worked else None,
            log_path="",
            log_tail="",
        )

    def _measurement(self, pending: Pending) -> Measurement:
        """With what is known of a trial that another program has run: its rates and losses."""
        return Measurement(
            windows=self._windows(pending),
            losses=pending.losses,
            gradient_norms=(),
            peak_memory_bytes=(),
            allocator_retries=0,
            effective={},
            warmup_steps=0,
            build_s=0.0,
            warmup_s=0.0,
            parameters=0,
            versions={},
        )

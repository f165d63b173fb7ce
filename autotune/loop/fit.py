"""Keeps candidates that can't fit into memory from being launched, and tries near ones last."""

import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotune.loop.ledger import Ledger
from autotune.loop.proposals import Proposals, Skip
from autotune.model import (
    PRESETS,
    Candidate,
    DeviceKind,
    Machine,
    Outcome,
    TransformerConfig,
    Trial,
)
from autotune.space.memory import (
    Capacity,
    Fit,
    Judge,
    Judgement,
    Known,
    MemoryJob,
    PredictedMemory,
    Sample,
    capacity_of,
    predict,
)
from autotune.space.nccl import NcclVersion
from autotune.space.space import Space

MAX_PUT_OFF = 20
"""Near candidates that are put off between two launches: a space in which all are near is searched
as well."""


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """What was proposed and not launched for want of memory."""

    cannot: Mapping[Candidate, Judgement] = field(default_factory=dict)
    """Candidates that can't fit."""
    near: Mapping[Candidate, Judgement] = field(default_factory=dict)
    """Candidates that might have fitted; the search ended before their turn came."""

    def describe(self) -> str:
        """A sentence with the numbers and the mildest case of each; empty if there is none."""
        parts = [
            _count(judgements, what)
            for judgements, what in (
                (self.cannot, "not launched, for want of memory"),
                (self.near, "left for the end of the search and not reached"),
            )
            if judgements
        ]
        return "; ".join(parts)


def _count(judgements: Mapping[Candidate, Judgement], what: str) -> str:
    least = min(judgements.values(), key=lambda judgement: judgement.needed_bytes)
    number = len(judgements)
    return f"{number} candidate{'s' * (number != 1)} {what} (the least of them: {least.reason})"


class MemoryKnowledge:
    """Judges candidates by what the trials so far have shown."""

    def __init__(
        self, space: Space, config: TransformerConfig | None, capacity: Capacity | None
    ) -> None:
        """Without `config` or `capacity` nothing is known, and everything fits."""
        self._space = space
        self._capacity = capacity
        self._job = None if config is None else memory_job(space, config)
        self._predictions: dict[Candidate, PredictedMemory] = {}
        self._known = Known()
        self._seen = 0
        self._judge: Judge | None = None

    def learn(self, trials: Sequence[Trial]) -> None:
        """Take in the trials that have ended since; earlier ones have to be the same as before."""
        if self._job is None or self._capacity is None:
            return
        for trial in trials[self._seen :]:
            self._take(trial)
        if self._judge is None or len(trials) > self._seen:
            self._judge = Judge(self._capacity, self._known)
        self._seen = len(trials)

    def judge(self, candidate: Candidate) -> Judgement | None:
        """Whether `candidate` fits; None if that can't be known."""
        if self._judge is None or self._job is None:
            return None
        return self._judge.judge(self._predict(self._job, candidate))

    def _take(self, trial: Trial) -> None:
        if self._job is None:
            return
        predicted = self._predict(self._job, trial.candidate)
        if trial.outcome is Outcome.OUT_OF_MEMORY:
            self._known.exhaust(predicted)
        elif trial.measurement is not None:
            peak = max(trial.measurement.peak_memory_bytes, default=0)
            self._known.complete(Sample(predicted=predicted, measured_bytes=peak))

    def _predict(self, job: MemoryJob, candidate: Candidate) -> PredictedMemory:
        if candidate not in self._predictions:
            facts = self._space.facts
            variables = {
                **facts.presets,
                **facts.environment,
                **self._space.environment(candidate),
            }
            self._predictions[candidate] = predict(job, self._space.settings(candidate), variables)
        return self._predictions[candidate]


@dataclass(kw_only=True)
class FittingProposals(Proposals):
    """Proposals without those that can't fit, and with the near ones at the end.

    A near candidate is skipped at first, and comes back when nothing else is left, or when trials
    have shown that it fits after all. So does one that couldn't fit by what was known before. The
    baseline is never proposed, so that no prediction keeps it from being tried.
    """

    memory: MemoryKnowledge
    _waiting: dict[Candidate, None] = field(default_factory=dict)
    """Skipped for want of memory, and not launched since."""
    _put_off: int = 0
    """Near ones among them since the last launch."""

    def __post_init__(self) -> None:
        self.judges = [self._skip_unfit, *self.judges]

    def next(self, ledger: Ledger) -> Candidate | None:
        """The next candidate to launch; None when there is none."""
        self._learn(ledger)
        self._put_off = 0
        candidate = self._fitting_after_all() or super().next(ledger) or self._least_near()
        if candidate is not None:
            self._waiting.pop(candidate, None)
            self.skipped.pop(candidate, None)
        return candidate

    def left_out(self, ledger: Ledger) -> LeftOut:
        """What was skipped for want of memory, by what the trials show in the end."""
        self._learn(ledger)
        verdicts = self._verdicts()
        return LeftOut(
            cannot={c: v for c, v in verdicts.items() if v.fit is Fit.CANNOT},
            near={c: v for c, v in verdicts.items() if v.fit is not Fit.CANNOT},
        )

    def _learn(self, ledger: Ledger) -> None:
        self.memory.learn(ledger.trials)
        for candidate, verdict in self._verdicts().items():
            self.skipped[candidate] = verdict.reason or self.skipped[candidate]

    def _skip_unfit(self, candidate: Candidate, ledger: Ledger) -> Skip | None:
        del ledger
        verdict = self.memory.judge(candidate)
        if verdict is None or verdict.fit is Fit.FITS:
            return None
        if verdict.fit is Fit.NEAR:
            if self._put_off >= MAX_PUT_OFF:
                return None
            self._put_off += 1
        self._waiting[candidate] = None
        return Skip(value=None, reason=verdict.reason)

    def _fitting_after_all(self) -> Candidate | None:
        return next((c for c, v in self._verdicts().items() if v.fit is Fit.FITS), None)

    def _least_near(self) -> Candidate | None:
        """Of the candidates that may fit, the one that needs least."""
        near = {c: v for c, v in self._verdicts().items() if v.fit is Fit.NEAR}
        return min(near, key=lambda candidate: near[candidate].needed_bytes, default=None)

    def _verdicts(self) -> dict[Candidate, Judgement]:
        return {c: v for c in self._waiting if (v := self.memory.judge(c)) is not None}


def memory_knowledge(
    space: Space, workload: str, machine: Machine, capacity: Capacity | None = None
) -> MemoryKnowledge:
    """What is known before the first trial; `capacity` goes before what `machine` has."""
    facts = space.facts
    if capacity is None:
        local = facts.device is DeviceKind.CPU
        capacity = capacity_of(
            machine,
            facts.device,
            facts.ranks_per_node,
            address_space_bytes=address_space_limit() if local else None,
        )
    return MemoryKnowledge(space, PRESETS.get(workload), capacity)


def memory_job(space: Space, config: TransformerConfig) -> MemoryJob:
    """What memory depends on, from what the space knows."""
    facts = space.facts
    return MemoryJob(
        config=config,
        device=facts.device,
        nodes=facts.nodes,
        ranks_per_node=facts.ranks_per_node,
        nccl=NcclVersion.parse(facts.nccl) if facts.nccl else None,
        compute_capability=facts.compute_capability,
    )


def address_space_limit() -> int | None:
    """The limit of this process (ulimit -v), which local ranks inherit; None without one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft

"""Whether a saved configuration still beats the baseline: launched again, as in confirmation."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from threading import Event

from autotune.executors.base import Executor, Launch, LaunchEnd
from autotune.loop.confirmed import caveat, unfit
from autotune.loop.fingerprint import fingerprint, versions
from autotune.loop.history import reading_of
from autotune.model import (
    BestConfiguration,
    Conclusion,
    DeviceKind,
    Measurement,
    MeasurementPlan,
    Ratio,
    Reading,
    TrainingSettings,
    TrialSpec,
    UserWorkload,
)
from autotune.model.protocol import Verdict
from autotune.scoring.compare import ratios
from autotune.scoring.score import score
from autotune.space.facts import Facts

_LIMIT_S = 600.0


class Verification(StrEnum):
    """What launching it again says of a saved configuration."""

    HOLDS = "holds"
    """It is faster than the baseline, beyond the noise."""
    NO_LONGER_HOLDS = "no_longer_holds"
    """It is slower, gains less than was measured beyond the noise, or doesn't work any more."""
    NOT_KNOWN = "not_known"
    """The noise allows both, or the trials can't be run here."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One of the two that are compared."""

    name: str
    settings: TrainingSettings
    environment: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Verified:
    """The finding, with what was measured for it."""

    verification: Verification
    reason: str
    ratio: Ratio | None = None
    """Winner over baseline, now."""
    launches: Mapping[str, list[Measurement]] = field(default_factory=dict)
    """Of `baseline` and `winner`, one a round."""

    def reading(self, arm: str) -> Reading | None:
        """Throughput of an arm; None if it never completed."""
        return reading_of([score(one) for one in self.launches.get(arm, ())])


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """Launches both arms in rounds, in random order within each."""

    best: BestConfiguration
    baseline: Arm
    workload: UserWorkload | None
    """The user's own, if it isn't built in."""
    executor: Executor
    folder: Path
    """For the trials' own folders."""
    rounds: int
    plan: MeasurementPlan
    cancel: Event
    on_launch: Callable[[int, str, LaunchEnd], None]
    """Told of each launch that has ended: its round from 0, and the arm's name."""

    def run(self) -> Verified:
        """The finding of all rounds, or of the first launch that failed."""
        winner = Arm(name="winner", settings=self.best.settings, environment=self.best.environment)
        launches: dict[str, list[Measurement]] = {"baseline": [], "winner": []}
        for number in range(self.rounds):
            order = [self.baseline, winner]
            random.Random(f"{self.best.run_id}:verify:{number}").shuffle(order)
            for arm in order:
                end = self._launch(arm, number)
                self.on_launch(number, arm.name, end)
                if not isinstance(end.measurement, Measurement) or end.reason:
                    return replace(_failed(arm, end), launches=launches)
                launches[arm.name].append(end.measurement)
        return _found(self.best, launches)

    def _launch(self, arm: Arm, number: int) -> LaunchEnd:
        target = self.best.target
        name = f"round-{number}-{arm.name}"
        spec = TrialSpec(
            trial_id=name, workload=target.workload, settings=arm.settings,
            workload_folder=self.workload.folder if self.workload else "",
            script=self.best.evidence.script,
            environment=arm.environment, device=self.best.evidence.device, plan=self.plan,
        )  # fmt: skip
        launch = Launch(
            spec=spec, nodes=target.nodes, ranks_per_node=target.ranks_per_node,
            directory=self.folder / name, time_limit_s=_LIMIT_S,
        )  # fmt: skip
        stop = self.cancel.is_set
        return self.executor.run(
            launch, lambda _: Verdict.STOP if stop() else Verdict.GO, self.cancel
        )


def _failed(arm: Arm, end: LaunchEnd) -> Verified:
    """Only the winner's own failure says something of it."""
    is_its_own = arm.name == "winner" and end.outcome.is_infeasible
    return Verified(
        verification=Verification.NO_LONGER_HOLDS if is_its_own else Verification.NOT_KNOWN,
        reason=f"a launch of the {arm.name} ended as {end.outcome.value}: {end.reason}",
    )


def _found(best: BestConfiguration, launches: Mapping[str, list[Measurement]]) -> Verified:
    rates = {
        arm: [score(one).samples_per_second for one in found] for arm, found in launches.items()
    }
    ratio = ratios(rates["baseline"], {"winner": rates["winner"]})["winner"]
    verification, reason = judge(ratio, best.evidence.ratio)
    if verification is Verification.HOLDS:
        device: DeviceKind = best.evidence.device
        if fault := unfit(launches["winner"], launches["baseline"], device):
            verification, reason = Verification.NO_LONGER_HOLDS, f"it is faster, but {fault}"
        else:
            reason += caveat(launches["winner"], launches["baseline"], device)
    return Verified(verification=verification, reason=reason, ratio=ratio, launches=launches)


def judge(now: Ratio, then: Ratio | None) -> tuple[Verification, str]:
    """What the ratio of winner to baseline says, and in words why."""
    if now.high < 1:
        return Verification.NO_LONGER_HOLDS, "it is slower than the baseline now"
    if then is not None and now.high < then.low:
        least = 100 * (then.low - 1)
        reason = f"it gains less now than the least that was measured then, {least:+.1f} %"
        return Verification.NO_LONGER_HOLDS, reason
    if now.low > 1:
        return Verification.HOLDS, "it is faster than the baseline beyond the noise"
    return Verification.NOT_KNOWN, "the noise of these launches allows both"


def restamped(
    best: BestConfiguration, verified: Verified, facts: Facts, now: datetime | None = None
) -> BestConfiguration:
    """`best` with the evidence of now: figures, versions and fingerprint."""
    last = verified.launches["winner"][-1]
    evidence = replace(
        best.evidence,
        baseline=verified.reading("baseline"),
        winner=verified.reading("winner"),
        ratio=verified.ratio,
        reason=f"verified: {verified.reason}",
        trials=best.evidence.trials + sum(map(len, verified.launches.values())),
        fingerprint=fingerprint(facts, best.target.workload, last),
    )
    return replace(
        best,
        conclusion=Conclusion.IMPROVED,
        evidence=evidence,
        versions=versions(facts, last),
        created_at=now or datetime.now(UTC),
    )

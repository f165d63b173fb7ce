"""What a study leaves: the evidence for its decision, and the configuration to save."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from autotune.errors import FieldError
from autotune.loop.decision import Decision
from autotune.loop.fingerprint import fingerprint, versions
from autotune.loop.history import reading
from autotune.loop.ledger import Ledger
from autotune.loop.plan import Plan
from autotune.model import (
    BestConfiguration,
    DeviceKind,
    Evidence,
    Measurement,
    SimulatedMeasurement,
    Trial,
)
from autotune.space.space import Space


def evidence(plan: Plan, ledger: Ledger, decision: Decision, device: DeviceKind) -> Evidence:
    """What speaks for `decision`. Not for Conclusion.NO_CANDIDATE."""
    # A confirmed answer counts the interleaved launches only, of its own confirmation.
    counted: Sequence[Trial] = ledger.trials
    if decision.ratio:
        counted = [trial for launches in decision.confirmation.values() for trial in launches]
    winner = None
    if decision.candidate != plan.baseline:
        winner = reading(t for t in counted if t.candidate == decision.candidate)
    return Evidence(
        baseline=reading(t for t in counted if t.candidate == plan.baseline),
        winner=winner,
        ratio=decision.ratio if winner else None,
        device=device,
        trials=len(ledger.trials),
        reason=decision.reason,
        pinned=plan.spec.pinned,
        only=plan.spec.only,
        script=plan.spec.own_workload.script if plan.spec.own_workload else None,
    )


def best_configuration(
    plan: Plan,
    ledger: Ledger,
    decision: Decision,
    space: Space,
    *,
    run_id: str,
    now: datetime,
) -> BestConfiguration:
    """`decision` as the configuration to save. Not for Conclusion.NO_CANDIDATE.

    Raises FieldError for simulated trials, which say nothing of the target's instance.
    """
    if any(isinstance(trial.measurement, SimulatedMeasurement) for trial in ledger.trials):
        instance = plan.spec.target.instance
        raise FieldError("target.instance", instance, "can't be what simulated trials are about")
    used = [t for t in ledger.trials if t.candidate == decision.candidate and t.scored]
    last = used[-1].measurement if used else None
    # What did nothing is not part of the answer.
    exported = ledger.effects.idle.reduced(decision.candidate)
    speaks = evidence(plan, ledger, decision, space.facts.device)
    if isinstance(last, Measurement):
        found = fingerprint(space.facts, plan.spec.target.workload, last)
        speaks = replace(speaks, fingerprint=found)
    return BestConfiguration(
        target=plan.spec.target,
        conclusion=decision.conclusion,
        settings=space.settings(exported),
        environment=space.environment(exported),
        evidence=speaks,
        versions=versions(space.facts, last) if isinstance(last, Measurement) else {},
        run_id=run_id,
        created_at=now,
    )

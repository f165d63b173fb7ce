"""What a best configuration has to satisfy beyond its types, before it is written or used."""

import math
from collections.abc import Mapping

from autotune.errors import FieldError
from autotune.model import (
    BestConfiguration,
    Conclusion,
    DeviceKind,
    Evidence,
    Fingerprint,
    Ratio,
    Reading,
    Target,
)
from autotune.model.secrets import redacted
from autotune.model.settings import TrainingSettings
from autotune.model.variables import HINT, name_fault, value_fault
from autotune.space.nccl import Network

_LINKS = ("nvswitch", "nvlink", "pcie", "none")
_NETWORKS = [network.value for network in Network]


def check(best: BestConfiguration) -> None:
    """Raises FieldError, with the field's path in the model, for what makes no sense."""
    check_target(best.target)
    _check_groups(best.settings, best.target.ranks)
    check_environment(best.environment)
    _check_evidence(best.evidence, best.conclusion)
    if not best.run_id:
        raise FieldError("run_id", best.run_id, "has to be given")
    if best.created_at.tzinfo is None:
        raise FieldError("created_at", best.created_at.isoformat(), "has to have a time zone")


def check_environment(environment: Mapping[str, str]) -> None:
    """Raises FieldError for names and values that a configuration may not set."""
    for name, value in environment.items():
        field = f"environment.{name}"
        if rule := name_fault(name):
            raise FieldError(field, name, rule, hint=HINT)
        if rule := value_fault(name, value):
            # What looks like a secret isn't quoted.
            raise FieldError(field, redacted(value), rule, hint=HINT)


def check_target(target: Target) -> None:
    """Raises FieldError for a target that no training can have."""
    for name in ("instance", "workload"):
        if not getattr(target, name):
            raise FieldError(f"target.{name}", getattr(target, name), "has to be given")
    for name in ("nodes", "ranks_per_node", "global_batch"):
        if getattr(target, name) < 1:
            raise FieldError(f"target.{name}", getattr(target, name), "has to be at least 1")


def check_uses_nccl(best: BestConfiguration, to: str) -> None:
    """Raises FieldError for an answer of CPUs, whose ranks talk by Gloo."""
    if best.evidence.device is DeviceKind.CPU:
        raise FieldError(
            "evidence.device", best.evidence.device.value,
            f"can't be exported --to {to}: on CPUs the ranks used Gloo, and NCCL had no part",
            hint="--to env, torchrun or accelerate take it",
        )  # fmt: skip


def _check_groups(settings: TrainingSettings, ranks: int) -> None:
    reshard = settings.reshard_after_forward
    for name, size in (
        ("shard_size", settings.shard_size),
        ("reshard_after_forward", None if isinstance(reshard, bool) else reshard),
    ):
        if size is not None and (size < 1 or ranks % size):
            raise FieldError(f"settings.{name}", size, f"has to divide the {ranks} ranks")


def _check_evidence(evidence: Evidence, conclusion: Conclusion) -> None:
    if evidence.trials < 0:
        raise FieldError("evidence.trials", evidence.trials, "has to be 0 or more")
    for name, value in evidence.pinned.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise FieldError(f"evidence.pinned.{name}", value, "has to be finite")
    for name in ("baseline", "winner"):
        reading = getattr(evidence, name)
        if reading is not None:
            _check_reading(reading, f"evidence.{name}")
    if evidence.ratio is not None:
        _check_ratio(evidence, evidence.ratio, conclusion)
    if evidence.fingerprint is not None:
        _check_fingerprint(evidence.fingerprint)
    if conclusion is Conclusion.IMPROVED and evidence.winner is None:
        raise FieldError("evidence.winner", None, "has to be there when the conclusion is improved")


def _check_fingerprint(seen: Fingerprint) -> None:
    for name in ("cores", "numa_nodes", "nics", "parameters"):
        if getattr(seen, name) < 0:
            raise FieldError(
                f"evidence.fingerprint.{name}", getattr(seen, name), "has to be 0 or more"
            )
    for name, known in (("links", _LINKS), ("network", _NETWORKS)):
        value = getattr(seen, name)
        if value not in known:
            raise FieldError(
                f"evidence.fingerprint.{name}", value, "is not known", alternatives=known
            )


def _check_reading(reading: Reading, field: str) -> None:
    rate, spread = reading.samples_per_second, reading.spread_percent
    if not (0 < rate < math.inf):
        raise FieldError(f"{field}.samples_per_second", rate, "has to be positive and finite")
    if spread is not None and not (0 <= spread < math.inf):
        raise FieldError(f"{field}.spread_percent", spread, "has to be 0 or more and finite")
    if reading.launches < 1:
        raise FieldError(f"{field}.launches", reading.launches, "has to be at least 1")
    if not 0 <= reading.stability <= 1:
        raise FieldError(f"{field}.stability", reading.stability, "has to be between 0 and 1")


def _check_ratio(evidence: Evidence, ratio: Ratio, conclusion: Conclusion) -> None:
    if evidence.baseline is None or evidence.winner is None:
        raise FieldError("evidence.ratio", ratio.estimate, "needs both a baseline and a winner")
    if not (0 < ratio.estimate < math.inf):
        raise FieldError("evidence.ratio.estimate", ratio.estimate, "has to be positive and finite")
    if not 0 < ratio.confidence <= 1:
        raise FieldError("evidence.ratio.confidence", ratio.confidence, "has to be in (0, 1]")
    if conclusion is Conclusion.IMPROVED and ratio.estimate <= 1:
        raise FieldError("evidence.ratio.estimate", ratio.estimate, "contradicts improved: above 1")
    _check_interval(ratio)


def _check_interval(ratio: Ratio) -> None:
    if not 0 <= ratio.low <= ratio.estimate:
        raise FieldError(
            "evidence.ratio.low", ratio.low, f"has to be from 0 to the estimate, {ratio.estimate}"
        )
    if not ratio.estimate <= ratio.high < math.inf:
        raise FieldError(
            "evidence.ratio.high",
            ratio.high,
            f"has to be finite and at least the estimate, {ratio.estimate}",
        )

"""A best configuration of this machine, for tests of what is done with one."""

from datetime import UTC, datetime
from typing import Any

from autotune.executors.host import describe_machine
from autotune.model import (
    BestConfiguration,
    Conclusion,
    DeviceKind,
    Evidence,
    Fingerprint,
    Ratio,
    Reading,
    Target,
    TrainingSettings,
    decode,
    encode,
)

P4D = Target(instance="p4d.24xlarge", nodes=2, ranks_per_node=8, workload="gpt2", global_batch=256)
A100 = Fingerprint(
    gpu="NVIDIA A100-SXM4-40GB", cores=96, numa_nodes=2, links="nvswitch", network="efa", nics=4,
    parameters=124_475_904, compute_dtype="bfloat16",
    shapes={"layers": 12, "width": 768, "heads": 12, "hidden": 3072, "vocabulary": 50257,
            "sequence": 1024},
)  # fmt: skip


def best_here(settings: dict[str, Any] | None = None, **changes: Any) -> BestConfiguration:
    """One for two ranks on this machine, measured on its CPU."""
    machine = describe_machine()
    wanted = decode(
        TrainingSettings, {"micro_batch": 4, "accumulation_steps": 2} | (settings or {})
    )
    target = Target(
        instance=machine.instance, nodes=1, ranks_per_node=2, workload="tiny",
        global_batch=wanted.global_batch(2),
    )  # fmt: skip
    return _best(target, wanted, DeviceKind.CPU, dict(machine.versions), None, changes)


def best_on_p4d(settings: dict[str, Any] | None = None, **changes: Any) -> BestConfiguration:
    """One for two p4d.24xlarge, made up."""
    wanted = decode(
        TrainingSettings, {"micro_batch": 8, "accumulation_steps": 2} | (settings or {})
    )
    versions = {"torch": "2.13.0", "cuda": "13.0", "nccl": "2.29.7", "driver": "580.1"}
    return _best(P4D, wanted, DeviceKind.CUDA, versions, A100, changes)


def _best(
    target: Target,
    settings: TrainingSettings,
    device: DeviceKind,
    versions: dict[str, str],
    fingerprint: Fingerprint | None,
    changes: dict[str, Any],
) -> BestConfiguration:
    reading = Reading(samples_per_second=100.0, spread_percent=2.0, launches=5, stability=1.0)
    evidence = Evidence(
        baseline=reading, winner=reading, device=device, trials=9, reason="",
        ratio=Ratio(estimate=1.1, low=1.05, high=1.15, confidence=0.95), fingerprint=fingerprint,
    )  # fmt: skip
    best = BestConfiguration(
        target=target, conclusion=Conclusion.IMPROVED, settings=settings, environment={},
        evidence=evidence, versions=versions, run_id="r1",
        created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )  # fmt: skip
    return decode(BestConfiguration, encode(best) | {k: encode(v) for k, v in changes.items()})

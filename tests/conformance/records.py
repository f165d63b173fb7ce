"""Records to store. No tests, and no imports but the product's: killed processes use it too."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from autotune.model import (
    BestConfiguration,
    Candidate,
    Conclusion,
    DeviceKind,
    Evidence,
    Gpu,
    Job,
    Machine,
    Measurement,
    Outcome,
    Phase,
    Ratio,
    Reading,
    Study,
    StudySpec,
    StudyStatus,
    Target,
    TrainingSettings,
    Trial,
    Window,
    encode,
)

NAN = float("nan")
NOON = datetime(2025, 3, 30, 12, 0, 0, 250, UTC)
TARGET = Target(
    instance="p4d.24xlarge", nodes=1, ranks_per_node=8, workload="tiny", global_batch=64
)


def a_target(**changes: Any) -> Target:
    return replace(TARGET, **changes)


def a_study(run_id: str = "r", **changes: Any) -> Study:
    study = Study(
        run_id=run_id,
        spec=StudySpec(
            target=TARGET, budget_s=1800.0, seed=3, pinned={"reshard": True}, only=("a", "b")
        ),
        machine=Machine(
            instance="p4d.24xlarge", gpus=(Gpu(name="A100", memory_bytes=2**35),) * 2, cpu="Xeon",
            cores=96, memory_bytes=2**40, numa_nodes=2, versions={"torch": "2.6.0"},
        ),
        status=StudyStatus.RUNNING,
        created_at=NOON,
        updated_at=NOON,
    )  # fmt: skip
    return replace(study, **changes)


def a_measurement(**changes: Any) -> Measurement:
    measurement = Measurement(
        windows=tuple(Window(index=i, steps=10, samples=640, seconds=0.1 + i) for i in range(3)),
        warmup_steps=3, settled=True, communication_share=0.25, build_s=1.5, warmup_s=0.7,
        losses=(2.5, 2.25), gradient_norms=(0.5, 0.1),
        peak_memory_bytes=(2**34, 2**34 + 1), allocator_retries=0, parameters=335_000_000,
        effective={"reshard": True, "groups": 1, "ratio": 1.0, "strategy": "ddp"},
        versions={"nccl": "2.21.5"},
    )  # fmt: skip
    return replace(measurement, **changes)


def a_trial(number: int = 0, run_id: str = "r", **changes: Any) -> Trial:
    trial = Trial(
        run_id=run_id,
        number=number,
        phase=Phase.SEARCH,
        candidate=Candidate({"strategy": "ddp", "reshard": True, "groups": 1, "ratio": 1.0}),
        settings=TrainingSettings(micro_batch=4, accumulation_steps=2),
        environment={"NCCL_ALGO": "Ring"},
        outcome=Outcome.COMPLETED,
        reason="",
        failed_rank=None,
        started_at=NOON,
        seconds=12.125,
        measurement=a_measurement(),
        log_path="/tmp/run/0",
        log_tail="",
    )
    return replace(trial, **changes)


def a_best(
    conclusion: Conclusion = Conclusion.IMPROVED, run_id: str = "r", **changes: Any
) -> BestConfiguration:
    reading = Reading(samples_per_second=640.0, spread_percent=None, launches=1, stability=0.98)
    best = BestConfiguration(
        target=TARGET,
        conclusion=conclusion,
        settings=TrainingSettings(micro_batch=4, accumulation_steps=2),
        environment={"NCCL_ALGO": "Ring"},
        evidence=Evidence(
            baseline=reading, winner=replace(reading, spread_percent=1.5),
            ratio=Ratio(estimate=1.1, low=1.05, high=1.15, confidence=0.95),
            device=DeviceKind.CUDA, trials=40, reason="faster",
        ),
        versions={"torch": "2.6.0"},
        run_id=run_id,
        created_at=NOON,
    )  # fmt: skip
    return replace(best, **changes)


def a_job(name: str = "autotune-r", run_id: str = "r", **changes: Any) -> Job:
    job = Job(
        name=name, run_id=run_id, submitted_at=NOON, region="us-east-1", s3="s3://b/autotune/r",
        instance="p4d.24xlarge", nodes=2, described="tiny on p4d.24xlarge", max_runtime_s=3600,
        usd_per_hour=65.5, max_cost_usd=200.0, is_spot=True, output="best.yaml", request="{}",
        arguments=("--workload", "tiny"),
    )  # fmt: skip
    return replace(job, **changes)


def same(one: object, other: object) -> bool:
    """Equal, NaN equal to itself, and True and 1 different."""
    return repr(encode(one)) == repr(encode(other))

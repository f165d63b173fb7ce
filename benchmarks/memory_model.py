"""How far predicted memory is from measured peaks, on real trials of two CPU ranks.

    python benchmarks/memory_model.py                      # all workloads: half an hour, 10 GiB
    python benchmarks/memory_model.py --only tiny mini     # some of them
    python benchmarks/memory_model.py --json peaks.jsonl   # keep the measured peaks as well
    python benchmarks/memory_model.py --again peaks.jsonl  # predict for those, launch nothing

Prints Markdown tables for benchmarks/README.md, by workload and by layout. Peaks hold the process
itself, so that errors are shown without it, too; `bare` is next to nothing but that. "After
calibration" is what a study knows after the same workload's trials before.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from threading import Event

from autotune.executors.base import Launch
from autotune.executors.local import LocalExecutor
from autotune.model import (
    ActivationCheckpointing,
    DeviceKind,
    Form,
    MeasurementPlan,
    ShardingStrategy,
    TrainingSettings,
    TransformerConfig,
    TrialSpec,
)
from autotune.model.protocol import Verdict
from autotune.model.workload import PRESETS
from autotune.space.memory import MemoryJob, PredictedMemory, Sample, calibrate, predict

RANKS = 2
MIB = 2**20
PLAN = MeasurementPlan(min_warmup_steps=2, max_warmup_steps=2, windows=1, window_s=0.01)
TIME_LIMIT_S = 1200.0


def _made_up(name: str, **shape: int | bool | None) -> TransformerConfig:
    form = Form.ENCODER if name == "encoder" else Form.DECODER
    fixed = {"name": name, "help": "", "form": form, "heads": 8}
    return TransformerConfig(**{**fixed, **shape})  # type: ignore[arg-type]


MADE_UP = (
    _made_up("bare", layers=1, width=16, hidden=16, vocabulary=256, sequence=8, global_batch=8),
    _made_up("deep", layers=6, width=256, hidden=1024, vocabulary=4096, sequence=128,
             global_batch=32),
    _made_up("encoder", layers=6, width=256, hidden=1024, vocabulary=4096, sequence=128,
             global_batch=32),
    _made_up("llama", layers=6, width=256, hidden=1024, vocabulary=4096, sequence=128,
             global_batch=32, kv_heads=2, llama=True),
    _made_up("vocabulary", layers=2, width=256, hidden=1024, vocabulary=16384, sequence=64,
             global_batch=16),
    _made_up("wide", layers=4, width=768, hidden=3072, vocabulary=1024, sequence=64,
             global_batch=16),
    _made_up("large", layers=8, width=512, hidden=2048, vocabulary=8192, sequence=128,
             global_batch=32),
    _made_up("held-out", layers=10, width=192, hidden=768, vocabulary=2048, sequence=128,
             global_batch=32),
    _made_up("held-out-llama", layers=4, width=512, hidden=1536, vocabulary=8192, sequence=128,
             global_batch=16, kv_heads=4, llama=True),
)  # fmt: skip
"""Shapes in which one component after the other is the largest. The constants of the model were
fitted without the last two."""
SMALL_BATCH = {"bert-base": 4, "gpt2": 4}
"""Global batches with which these presets take minutes and 10 GiB on a CPU."""
WORKLOADS = ("tiny", "mini", *(config.name for config in MADE_UP), *SMALL_BATCH)

FULL = {"strategy": ShardingStrategy.FSDP_FULL, "reshard_after_forward": True}
GRAD_OP = {"strategy": ShardingStrategy.FSDP_GRAD_OP, "reshard_after_forward": False}
EVERY = {"activation_checkpointing": ActivationCheckpointing.EVERY_BLOCK}
SECOND = {"activation_checkpointing": ActivationCheckpointing.EVERY_SECOND_BLOCK}
LAYOUTS: Mapping[str, Mapping[str, object]] = {
    "ddp": {},
    "ddp, gradients as views": {"gradient_as_bucket_view": True},
    "ddp, every second block checkpointed": SECOND,
    "ddp, every block checkpointed": EVERY,
    "ddp, 4 accumulated": {"accumulation_steps": 4},
    "full": FULL,
    "full, every block checkpointed": {**FULL, **EVERY},
    "full, 4 accumulated": {**FULL, "accumulation_steps": 4},
    "grad_op": GRAD_OP,
    "grad_op, 4 accumulated": {**GRAD_OP, "accumulation_steps": 4},
    "full, 2 accumulated": {**FULL, "accumulation_steps": 2},
}
FOR_LARGE = ("ddp", "full", "full, 2 accumulated")
FOR_SMALL = tuple(name for name in LAYOUTS if name != "full, 2 accumulated")


@dataclass(frozen=True, kw_only=True)
class Peak:
    """One trial."""

    workload: str
    layout: str
    predicted: PredictedMemory
    measured_bytes: int

    @property
    def sample(self) -> Sample:
        return Sample(predicted=self.predicted, measured_bytes=self.measured_bytes)


def main() -> None:
    """Run the trials and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=WORKLOADS)
    parser.add_argument("--json", type=Path, help="file that measured peaks are added to")
    parser.add_argument("--again", type=Path, help="file with peaks that were measured before")
    parser.add_argument("--details", action="store_true", help="print every trial as well")
    options = parser.parse_args()
    register()
    if options.again:
        kept = map(json.loads, options.again.read_text().splitlines())
        peaks = [peak_of(**row) for row in kept]
    else:
        peaks = list(run(options.only, options.json))
    print(table(peaks, by=lambda peak: peak.workload))
    print()
    print(table(peaks, by=lambda peak: peak.layout))
    if options.details:
        print()
        print(rows(peaks))


def run(workloads: Sequence[str], keep: Path | None) -> Iterator[Peak]:
    """A trial for each layout of each workload."""
    command = (sys.executable, __file__, "--rank")
    with LocalExecutor(rank_command=command) as executor:
        for workload, layout in cases(workloads):
            settings = settings_of(PRESETS[workload], LAYOUTS[layout])
            peak = peak_of(workload, layout, measure(executor, workload, settings))
            print(f"{workload}: {layout}: {peak.measured_bytes / MIB:.0f}", file=sys.stderr)
            if keep:
                row = {k: v for k, v in vars(peak).items() if k != "predicted"}
                with keep.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            yield peak


def cases(workloads: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What is launched: workload and layout."""
    for workload in workloads:
        for layout in FOR_LARGE if workload in SMALL_BATCH else FOR_SMALL:
            yield workload, layout


def peak_of(workload: str, layout: str, measured_bytes: int) -> Peak:
    """A measured peak beside its prediction."""
    config = PRESETS[workload]
    job = MemoryJob(config=config, device=DeviceKind.CPU, nodes=1, ranks_per_node=RANKS)
    return Peak(
        workload=workload,
        layout=layout,
        predicted=predict(job, settings_of(config, LAYOUTS[layout]), {}),
        measured_bytes=measured_bytes,
    )


def settings_of(config: TransformerConfig, arguments: Mapping[str, object]) -> TrainingSettings:
    """The layout at the workload's global batch."""
    steps = arguments.get("accumulation_steps", 1)
    if not isinstance(steps, int):
        raise TypeError(f"accumulation_steps: {steps!r}")
    micro_batch = config.global_batch // RANKS // steps
    return TrainingSettings(micro_batch=micro_batch, **arguments)  # type: ignore[arg-type]


def measure(executor: LocalExecutor, workload: str, settings: TrainingSettings) -> int:
    """Peak bytes of the largest rank."""
    plan = (
        replace(PLAN, min_warmup_steps=1, max_warmup_steps=1) if workload in SMALL_BATCH else PLAN
    )
    spec = TrialSpec(
        trial_id="memory", workload=workload, settings=settings, device=DeviceKind.CPU, plan=plan
    )
    with tempfile.TemporaryDirectory() as folder:
        launch = Launch(
            spec=spec,
            nodes=1,
            ranks_per_node=RANKS,
            directory=Path(folder) / "trial",
            time_limit_s=TIME_LIMIT_S,
        )
        end = executor.run(launch, lambda window: Verdict.GO, Event())
    if end.measurement is None:
        raise RuntimeError(f"{workload}, {settings}: {end.outcome}: {end.reason}\n{end.log_tail}")
    return max(end.measurement.peak_memory_bytes)


def table(peaks: Sequence[Peak], by: Callable[[Peak], str]) -> str:
    """Markdown; peaks in MiB, errors in percent, for each group of peaks and for all together."""
    lines = [
        "| | trials | measured | median error | largest | without the process, median | "
        "after calibration, median | largest |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    errors = {peak: _errors(peak, peaks) for peak in peaks if peak.workload != "bare"}
    groups = {name: [p for p in errors if by(p) == name] for name in dict.fromkeys(map(by, errors))}
    for name, group in (groups | {"**all**": list(errors)}).items():
        sizes = sorted(peak.measured_bytes / MIB for peak in group)
        found = [errors[peak] for peak in group]
        before, own, after = zip(*found, strict=True)
        lines.append(
            f"| {name} | {len(group)} | {sizes[0]:.0f} to {sizes[-1]:.0f} "
            f"| {_middle(before)} | {_worst(before)} | {_middle(own)} "
            f"| {_middle(after)} | {_worst(after)} |"
        )
    return "\n".join(lines)


def _middle(errors: Sequence[float]) -> str:
    return f"{100 * median(map(abs, errors)):.1f} %"


def _worst(errors: Sequence[float]) -> str:
    return f"{100 * max(errors, key=abs):+.1f} %"


def rows(peaks: Sequence[Peak]) -> str:
    """Markdown: a line for each trial."""
    lines = ["| workload | layout | predicted | measured | error |", "|---|---|--:|--:|--:|"]
    for peak in peaks:
        sizes = peak.predicted.measured_bytes / MIB, peak.measured_bytes / MIB
        error = f"{100 * (sizes[0] / sizes[1] - 1):+.1f} %"
        lines.append(
            f"| {peak.workload} | {peak.layout} | {sizes[0]:.0f} | {sizes[1]:.0f} | {error} |"
        )
    return "\n".join(lines)


def _errors(peak: Peak, peaks: Sequence[Peak]) -> tuple[float, float, float]:
    """Of the prediction, without the process, and calibrated by the workload's earlier trials."""
    earlier = peaks[: peaks.index(peak)]
    before = [one.sample for one in earlier if one.workload == peak.workload]
    predicted, measured = peak.predicted.measured_bytes, peak.measured_bytes
    corrected = calibrate(before).correct(peak.predicted)
    own = predicted - peak.predicted.process
    return (
        predicted / measured - 1,
        (predicted - measured) / own,
        corrected / measured - 1,
    )


def register() -> None:
    """Make the shapes of this file workloads."""
    PRESETS.update({config.name: config for config in MADE_UP})
    for name, batch in SMALL_BATCH.items():
        PRESETS[name] = replace(PRESETS[name], global_batch=batch)


if __name__ == "__main__":
    register()
    if sys.argv[1:2] == ["--rank"]:
        from autotune.trainers import rank

        rank.main(sys.argv[2:])
    main()

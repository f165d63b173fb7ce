"""How far predicted memory is from measured peaks, on real trials of two CPU ranks.

    python benchmarks/memory_model.py                      # all workloads, about ten minutes
    python benchmarks/memory_model.py --only tiny mini     # some of them
    python benchmarks/memory_model.py --json peaks.jsonl   # keep the measured peaks as well
    python benchmarks/memory_model.py --again peaks.jsonl  # predict for those, launch nothing

Prints a Markdown table for benchmarks/README.md. Peaks are resident sets, so that they hold the
interpreter with PyTorch: the last two columns leave that out, and correct by the trials before.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
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
PLAN = MeasurementPlan(warmup_steps=3, windows=1, window_s=0.01)
TIME_LIMIT_S = 300.0


def _made_up(name: str, **shape: int | bool | None) -> TransformerConfig:
    form = Form.ENCODER if name == "encoder" else Form.DECODER
    fixed = {"name": name, "help": "", "form": form, "heads": 8}
    return TransformerConfig(**{**fixed, **shape})  # type: ignore[arg-type]


MADE_UP = (
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
WORKLOADS = ("tiny", "mini", *(config.name for config in MADE_UP))

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
}


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
    options = parser.parse_args()
    register()
    if options.again:
        rows = [json.loads(line) for line in options.again.read_text().splitlines()]
        peaks = [peak_of(row["workload"], row["layout"], row["measured_bytes"]) for row in rows]
    else:
        peaks = list(run(options.only, options.json))
    print(table(peaks))


def run(workloads: Sequence[str], keep: Path | None) -> Iterator[Peak]:
    """A trial for each layout of each workload."""
    command = (sys.executable, __file__, "--rank")
    with LocalExecutor(rank_command=command) as executor:
        for workload, layout in product(workloads, LAYOUTS):
            settings = settings_of(PRESETS[workload], LAYOUTS[layout])
            peak = peak_of(workload, layout, measure(executor, workload, settings))
            print(f"{workload}: {layout}: {peak.measured_bytes / MIB:.0f}", file=sys.stderr)
            if keep:
                row = {k: v for k, v in vars(peak).items() if k != "predicted"}
                with keep.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            yield peak


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
    spec = TrialSpec(
        trial_id="memory", workload=workload, settings=settings, device=DeviceKind.CPU, plan=PLAN
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


def table(peaks: Sequence[Peak]) -> str:
    """Markdown; sizes in MiB, errors in percent of the measured peak."""
    lines = [
        "| workload | layout | predicted | measured | error | error without the process | "
        "error after calibration |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    errors: list[tuple[float, float, float]] = []
    for peak in peaks:
        error = _errors(peak, [p.sample for p in peaks if p.workload == peak.workload])
        errors.append(error)
        cells = [peak.workload, peak.layout, f"{peak.predicted.measured_bytes / MIB:.0f}"]
        cells += [f"{peak.measured_bytes / MIB:.0f}", *(f"{100 * e:+.1f} %" for e in error)]
        lines.append(f"| {' | '.join(cells)} |")
    for name, reduce in (("median of absolute errors", median), ("largest", max)):
        cells = [
            f"{100 * reduce([abs(e) for e in column]):.1f} %"
            for column in zip(*errors, strict=True)
        ]
        lines.append(f"| **{name}** | | | | {' | '.join(cells)} |")
    return "\n".join(lines)


def _errors(peak: Peak, samples: Sequence[Sample]) -> tuple[float, float, float]:
    """Of the prediction, without the process, and calibrated by the workload's earlier trials."""
    before = samples[: samples.index(peak.sample)]
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


if __name__ == "__main__":
    register()
    if sys.argv[1:2] == ["--rank"]:
        from autotune.trainers import rank

        rank.main(sys.argv[2:])
    main()

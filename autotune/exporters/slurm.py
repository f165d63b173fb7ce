"""`--to slurm`: a batch script that starts one torchrun on each node."""

import shlex
from collections.abc import Iterator

from autotune.exporters.base import Exporter
from autotune.exporters.checks import check
from autotune.exporters.torchrun import threads
from autotune.exporters.variables import (
    all_variables,
    heading,
    own_variables_comment,
    unused_variables,
)
from autotune.model import BestConfiguration, DeviceKind

_PORT = 29500


class SlurmExporter(Exporter):
    """`sbatch FILE train.py [arguments]`; options of the site are given on sbatch's line."""

    name = "slurm"
    help = "a batch script: sbatch FILE train.py [arguments]"

    def export(self, best: BestConfiguration) -> str:
        check(best)
        return "".join(f"{line}\n" for line in _lines(best))


def _lines(best: BestConfiguration) -> Iterator[str]:
    target = best.target
    yield "#!/bin/bash"
    yield f"#SBATCH --nodes={target.nodes}"
    yield "#SBATCH --ntasks-per-node=1"
    if best.evidence.device is DeviceKind.CUDA:
        yield f"#SBATCH --gpus-per-node={target.ranks_per_node}"
    yield "#SBATCH --exclusive"
    yield from heading(best, "Submit it: sbatch [--partition=…] FILE train.py [arguments]")
    yield "set -euo pipefail"
    yield ': "${1:?name the training script: sbatch FILE train.py [arguments]}"'
    yield from own_variables_comment()
    for name, value in all_variables(best).items():
        yield f"export {name}={shlex.quote(value)}"
    if unused := unused_variables(best):
        yield f"unset {' '.join(unused)}"
    if "OMP_NUM_THREADS" not in best.environment:
        yield from threads(target.ranks_per_node)
    yield 'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
    yield "# Two jobs on one node need two ports."
    yield f"port=$(({_PORT} + SLURM_JOB_ID % 1000))"
    yield "exec srun --kill-on-bad-exit=1 torchrun \\"
    yield f"  --nnodes {target.nodes} --nproc-per-node {target.ranks_per_node} \\"
    yield '  --rdzv-backend c10d --rdzv-endpoint "$first:$port" --rdzv-id "$SLURM_JOB_ID" \\'
    yield '  "$@"'

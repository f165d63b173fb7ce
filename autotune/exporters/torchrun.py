"""`--to torchrun`: a complete launch line."""

import shlex
from collections.abc import Iterator

from autotune.exporters.base import Exporter
from autotune.exporters.checks import check
from autotune.exporters.text import comment
from autotune.exporters.variables import (
    heading,
    own_variables,
    own_variables_comment,
    unused_variables,
)
from autotune.model import BestConfiguration, Target

_ENDPOINT = (
    "${MASTER_ADDR:?set it to the address of one node, the same on all}:${MASTER_PORT:-29500}"
)


class TorchrunExporter(Exporter):
    """A script for sh with one torchrun command, run on every node alike."""

    name = "torchrun"
    help = "a complete launch line: sh FILE train.py [arguments], on every node"

    def export(self, best: BestConfiguration) -> str:
        check(best)
        return "".join(f"{line}\n" for line in _lines(best))


def _lines(best: BestConfiguration) -> Iterator[str]:
    yield "#!/bin/sh"
    yield from heading(best, *_usage(best.target))
    yield ': "${1:?name the training script: sh FILE train.py [arguments]}"'
    yield ""
    yield from own_variables_comment()
    for name, value in own_variables(best).items():
        yield f"export {name}={shlex.quote(value)}"
    if unused := unused_variables(best):
        yield f"unset {' '.join(unused)}"
    yield ""
    yield from threads(best.target.ranks_per_node)
    yield "exec env \\"
    for name, value in best.environment.items():
        yield f"  {name}={shlex.quote(value)} \\"
    yield f"  torchrun {' '.join(_options(best.target, best.run_id))} \\"
    yield '  "$@"'


def _usage(target: Target) -> Iterator[str]:
    if target.nodes == 1:
        yield "Run it: sh FILE train.py [arguments]"
        return
    yield f"Run it on each of the {target.nodes} nodes: MASTER_ADDR=FIRST_NODE sh FILE train.py"
    yield "[arguments]. FIRST_NODE is the address of one of them, the same on all of them;"
    yield "MASTER_PORT is 29500 unless it is set."


def threads(ranks: int) -> Iterator[str]:
    """Lines that give each of so many ranks its share of the cores, unless told otherwise."""
    yield comment("torchrun gives a rank one thread unless told; the trials shared out the cores.")
    yield "cores=$(nproc)"
    share = f"$((cores / {ranks} > 0 ? cores / {ranks} : 1))"
    yield f'export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-{share}}}"'


def _options(target: Target, run_id: str) -> Iterator[str]:
    if target.nodes == 1:
        yield "--standalone"
    yield f"--nnodes {target.nodes}"
    yield f"--nproc-per-node {target.ranks_per_node}"
    if target.nodes > 1:
        yield "--rdzv-backend c10d"
        yield f'--rdzv-endpoint "{_ENDPOINT}"'
        yield f"--rdzv-id={shlex.quote(run_id)}"

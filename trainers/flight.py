"""PyTorch's flight recorder: which collectives a rank has called, for when the ranks hang.

It records those of NCCL, and since PyTorch 2.13 also those of Gloo. Written for launchers that ask
for it (`inspect` in docs/trial_protocol.md); no GPU has run this yet.
"""

import os
from contextlib import suppress
from pathlib import Path

from torch._C import _distributed_c10d as c10d

ENTRIES = "2000"
"""Calls that are remembered: PyTorch's default where it is on by default."""
_SIZE = (
    "TORCH_FR_BUFFER_SIZE"
    if hasattr(c10d, "_dump_fr_trace_json")
    else "TORCH_NCCL_TRACE_BUFFER_SIZE"  # its name before PyTorch 2.8, of which newer ones warn
)
_ON_TIMEOUT = "TORCH_NCCL_DUMP_ON_TIMEOUT"
_DUMP = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
VARIABLES = {_SIZE, _ON_TIMEOUT, _DUMP}
"""Those of the environment that concern the recorder. They don't decide how collectives run."""


def record(folder: Path) -> None:
    """Have it record from the first process group on, where the user has said nothing else.

    If a collective times out, PyTorch itself writes a dump of its own form into `folder`, too.
    """
    os.environ.setdefault(_SIZE, ENTRIES)
    os.environ.setdefault(_ON_TIMEOUT, "1")
    os.environ.setdefault(_DUMP, str(folder / "torch-dump-rank-"))


def file_of(folder: Path, rank: int) -> Path:
    """Where the record of `rank` is written."""
    return folder / f"flight-{rank}.json"


def write(folder: Path, rank: int) -> None:
    """Write the record as JSON, whole or not at all. PyTorch before 2.5 has none in JSON."""
    dump = getattr(c10d, "_dump_fr_trace_json", getattr(c10d, "_dump_nccl_trace_json", None))
    if dump is None:
        return
    path = file_of(folder, rank)
    partial = path.with_suffix(".part")
    with suppress(OSError):  # the folder is full, or gone: a launcher goes by what it has
        partial.write_bytes(dump(True, False))
        partial.rename(path)

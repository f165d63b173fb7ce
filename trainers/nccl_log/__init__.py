"""What NCCL really did, from the log that NCCL_DEBUG=INFO writes (NCCL 2.10 to 2.31).

A setting that NCCL doesn't know is ignored without a word, and one that it knows may be overruled
by a plugin, clamped, or switched off for a collective: only the log tells. Ask for one file per
process (NCCL_DEBUG_FILE with %h and %p) and for NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,TUNING,NET.

    readback = read_log(Path("nccl.host.1234.log"))
    for effect in effective(readback, environment).values(): ...

Logs are hostile input: nothing here raises on a log's content, takes more than linear time, or
keeps more than a bounded number of entries.
"""

from autotune.trainers.nccl_log.effect import Effect, Uptake, effective
from autotune.trainers.nccl_log.merge import Difference, Merged, merge
from autotune.trainers.nccl_log.parse import parse, parse_processes, read_log
from autotune.trainers.nccl_log.readback import (
    Choice,
    Communicator,
    Enabled,
    Link,
    NcclReadback,
    Pattern,
)

__all__ = [
    "Choice",
    "Communicator",
    "Difference",
    "Effect",
    "Enabled",
    "Link",
    "Merged",
    "NcclReadback",
    "Pattern",
    "Uptake",
    "effective",
    "merge",
    "parse",
    "parse_processes",
    "read_log",
]

"""Knobs that become one or more environment variables, by the version of the library."""

from collections.abc import Callable

from autotune.model import KnobValue
from autotune.space.facts import Facts

Logical = Callable[[KnobValue, Facts], dict[str, str]]


def nccl_channels(value: KnobValue, facts: Facts) -> dict[str, str]:
    """Exactly this many channels: NCCL_NCHANNELS doesn't exist, a minimum and a maximum do.

    Source: NCCL user guide, NCCL_MIN_CTAS and NCCL_MAX_CTAS (2.17 and later).
    """
    del facts
    return {"NCCL_MIN_CTAS": str(value), "NCCL_MAX_CTAS": str(value)}


def nccl_algorithm(value: KnobValue, facts: Facts) -> dict[str, str]:
    """One algorithm for all-reduce; the default list first keeps the other collectives working.

    Source: NCCL user guide, NCCL_ALGO (per-function form, 2.24 and later). From 2.31 a collective
    that no entry names would otherwise be left without any algorithm.
    """
    del facts
    return {"NCCL_ALGO": f"ring,tree;allreduce:{value}"}


LOGICAL: dict[str, Logical] = {rule.__name__: rule for rule in (nccl_channels, nccl_algorithm)}

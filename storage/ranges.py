"""What figures of a record can be, beyond their types: what nobody measured isn't reckoned with.

Whoever reads a record divides by its figures, takes their logarithm and writes them out, so what
would fail there is refused where it can be named. Losses and norms aren't: they may be any number.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass

from autotune.errors import FieldError
from autotune.model import (
    Gpu,
    Job,
    Machine,
    Measurement,
    Ratio,
    Reading,
    SimulatedMeasurement,
    Target,
    Trial,
    Window,
)
from autotune.storage.lease import Owner


@dataclass(frozen=True)
class _Range:
    low: float
    high: float

    def rule(self, value: float) -> str:
        """What `value` breaks; empty if nothing."""
        if isinstance(value, float) and not math.isfinite(value):
            return "has to be finite"
        if value < self.low:
            return f"has to be at least {_plain(self.low)}"
        return f"has to be at most {_plain(self.high)}" if value > self.high else ""


def _plain(bound: float) -> str:
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


_LARGEST = 2**63 - 1
"""What a column of whole numbers holds."""
_COUNT = _Range(1, _LARGEST)
_NUMBER = _Range(0, _LARGEST)
# Sums and squares of what is within these are numbers still.
_SECONDS = _Range(0, 1e15)
_TIME = _Range(-1e15, 1e15)
_POSITIVE = _Range(1e-100, 1e100)
_SHARE = _Range(0, 1)
_TIMINGS = {"peak_memory_bytes": _NUMBER, "allocator_retries": _NUMBER}
_RANGES: Mapping[type, Mapping[str, _Range]] = {
    Target: {"nodes": _COUNT, "ranks_per_node": _COUNT, "global_batch": _COUNT},
    Gpu: {"memory_bytes": _NUMBER},
    Machine: {"cores": _NUMBER, "memory_bytes": _NUMBER, "numa_nodes": _NUMBER},
    Trial: {"number": _NUMBER, "failed_rank": _NUMBER, "seconds": _SECONDS},
    Window: {
        "index": _NUMBER, "steps": _COUNT, "samples": _COUNT,
        "seconds": _Range(_POSITIVE.low, _SECONDS.high),
    },
    SimulatedMeasurement: _TIMINGS,
    Measurement: _TIMINGS
    | {
        # A process starts by a coarser clock than its first step is timed with.
        "warmup_steps": _NUMBER, "communication_share": _SHARE, "build_s": _TIME,
        "warmup_s": _TIME, "parameters": _NUMBER,
    },
    Reading: {
        "samples_per_second": _POSITIVE, "spread_percent": _Range(0, _POSITIVE.high),
        "launches": _COUNT, "stability": _SHARE,
    },
    Ratio: {
        # Two rounds that differ wildly leave an interval of hundreds of orders of magnitude.
        "estimate": _POSITIVE, "low": _Range(0, _POSITIVE.high), "high": _Range(0, 1e300),
        "confidence": _SHARE,
    },
    Owner: {"pid": _COUNT, "started": _NUMBER},
    Job: {
        "nodes": _COUNT, "max_runtime_s": _NUMBER, "usd_per_hour": _SECONDS,
        "max_cost_usd": _SECONDS,
    },
}  # fmt: skip


def check_ranges(record: object, path: str) -> None:
    """Raise FieldError, with the field's path under `path`, for a figure that none has there."""
    for field, value, allowed in _figures(record, path):
        if rule := allowed.rule(value):
            raise FieldError(field, value, rule)
    if isinstance(record, Trial):
        _check_scored(record, path)


def check_time(seconds: float, field: str) -> None:
    """Raise FieldError for what no clock shows."""
    if rule := _TIME.rule(seconds):
        raise FieldError(field, seconds, rule)


def _check_scored(trial: Trial, path: str) -> None:
    if trial.scored is not None and not trial.scored.windows:
        rule = f"has to list at least one: the trial is {trial.outcome.value}"
        raise FieldError(f"{path}.measurement.windows", [], rule)


def _figures(value: object, path: str) -> Iterator[tuple[str, float, _Range]]:
    """Each number of `value` and of what is in it that has a range, with its path."""
    if isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _figures(item, f"{path}[{index}]")
    if not is_dataclass(value):
        return
    ranges = _RANGES.get(type(value), {})
    for name in (field.name for field in fields(value)):
        part, where = getattr(value, name), f"{path}.{name}"
        if name not in ranges:
            yield from _figures(part, where)
        elif isinstance(part, tuple):
            yield from ((f"{where}[{i}]", item, ranges[name]) for i, item in enumerate(part))
        elif part is not None:
            yield where, part, ranges[name]

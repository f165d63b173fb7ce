"""Speeds that real trials had: a table of launches, and what it says."""

import csv
import gzip
import hashlib
import io
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from autotune.errors import UserError
from autotune.executors.landscapes.layout import Layout, changes, key
from autotune.model import KnobValue, Outcome, decode

COLUMNS = ("layout", "launch", "outcome", "seconds", "samples_per_second")
MAX_BYTES = 16 * 1024 * 1024
"""Of a table when it is unpacked."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One launch of one layout."""

    layout: str
    """What isn't a default, as JSON with sorted keys."""
    launch: int
    outcome: Outcome
    seconds: float
    """What the trial took."""
    rates: tuple[float, ...]
    """Samples/s of its windows; none if it failed."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The mean speeds of recorded layouts, in samples/s, and their noise."""

    rates: Mapping[str, float]
    failures: Mapping[str, Outcome]
    """Layouts of which no launch completed."""
    launch_percent: float
    """Standard deviation between launches of a layout, pooled over all of them."""
    window_percent: float
    """And between the windows of a launch."""

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "Recorded":
        """What `rows` say together."""
        launches: dict[str, list[float]] = {}
        failures: dict[str, Outcome] = {}
        windows: list[Sequence[float]] = []
        for row in rows:
            if row.rates:
                launches.setdefault(row.layout, []).append(fmean(row.rates))
                windows.append(row.rates)
            else:
                failures.setdefault(row.layout, row.outcome)
        return cls(
            rates={layout: fmean(rates) for layout, rates in launches.items()},
            failures={name: end for name, end in failures.items() if name not in launches},
            launch_percent=_pooled_percent(launches.values()),
            window_percent=_pooled_percent(windows),
        )

    def covers(self, layout: Layout) -> bool:
        """Whether this layout was recorded."""
        return key(layout) in self.rates or key(layout) in self.failures

    def factor(self, layout: Layout) -> float:
        """Mean samples/s of the layout's launches. Raises UserError for one without any."""
        if key(layout) not in self.rates:
            raise UserError(
                f"the landscape has no record of {changes(layout)}",
                hint="search only the knobs that were recorded",
            )
        return self.rates[key(layout)]

    def failure(self, layout: Layout) -> Outcome | None:
        """How all launches of the layout ended; None if one of them completed."""
        return self.failures.get(key(layout))


def _pooled_percent(groups: Iterable[Sequence[float]]) -> float:
    """Standard deviation of the logarithms within groups, in percent."""
    squares, freedom = 0.0, 0
    for group in groups:
        logs = [math.log(value) for value in group]
        centre = fmean(logs)
        squares += sum((value - centre) ** 2 for value in logs)
        freedom += len(logs) - 1
    return 100 * math.expm1(math.sqrt(squares / freedom)) if freedom else 0.0


def table_bytes(rows: Iterable[Row]) -> bytes:
    """`rows` as the content of a .csv.gz file; the same rows give the same bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        rates = " ".join(f"{rate:.6g}" for rate in row.rates)
        writer.writerow([row.layout, row.launch, row.outcome.value, f"{row.seconds:.3f}", rates])
    return gzip.compress(text.getvalue().encode(), mtime=0)


def read_table(path: Path, sha256: str) -> list[Row]:
    """The launches in the table at `path`. Raises UserError with the line of what is wrong."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: can't be read: {error.strerror}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise UserError(
            f"{path}: is not the table that was recorded: its SHA-256 is {found}, not {sha256}"
        )
    return parse_table(_unpacked(content, path), path)


def _unpacked(content: bytes, path: Path) -> str:
    try:
        with gzip.open(io.BytesIO(content)) as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{path}: is not a gzip file of UTF-8 text: {error}") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{path}: unpacks to more than the {MAX_BYTES} bytes that are accepted")
    return text


def parse_table(text: str, path: Path) -> list[Row]:
    """The launches in a table's `text`; `path` is for messages. Raises UserError."""
    return list(_rows(text, path))


def _rows(text: str, path: Path) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text))
    try:
        _check_columns(next(reader, None))
        for fields in reader:
            yield _row(fields)
    except (ValueError, csv.Error, RecursionError) as error:
        raise UserError(f"{path}:{max(1, reader.line_num)}: {error}") from None


def _check_columns(found: Sequence[str] | None) -> None:
    if found != list(COLUMNS):
        raise ValueError(f"the columns have to be {', '.join(COLUMNS)}")


def _row(fields: Sequence[str]) -> Row:
    layout, launch, outcome, seconds, rates = fields
    data = decode(dict[str, KnobValue], json.loads(layout), "layout")
    found = tuple(float(rate) for rate in rates.split())
    if not all(0 < rate < math.inf for rate in found):
        raise ValueError(f"{rates!r} has to be positive and finite")
    if not 0 <= float(seconds) < math.inf:
        raise ValueError(f"{seconds!r} has to be 0 or more, and finite")
    end = Outcome(outcome)
    if (end is Outcome.COMPLETED) != bool(found):
        raise ValueError(f"{rates!r} contradicts the outcome {outcome}")
    return Row(
        layout=json.dumps(dict(sorted(data.items()))),
        launch=int(launch),
        outcome=end,
        seconds=float(seconds),
        rates=found,
    )

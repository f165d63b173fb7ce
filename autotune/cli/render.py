"""How results look: tables for people, JSON for programs; both on stdout."""

import json
import re
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autotune.exporters.text import pins_text
from autotune.exporters.text import shown as shown  # noqa: PLC0414 - tables need it too
from autotune.model import (
    DEFAULT,
    Candidate,
    KnobValue,
    Ratio,
    Reading,
    TrainingSettings,
    encode,
)

Cell = str
_CONTROL = re.compile(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]")


def out() -> Console:
    """The console for data. Not a terminal: plain text, as wide as it needs to be."""
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 200
    return console


def print_json(data: object) -> None:
    """`data` as one JSON document."""
    sys.stdout.write(json.dumps(encode(data), indent=2, ensure_ascii=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """A table whose last column takes what width is left."""
    table = Table(title=Text(title), title_justify="left", box=None, pad_edge=False, padding=(0, 2))
    for column in columns:
        # Text, never markup: a value in brackets is a value.
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    console = out()
    console.print(table)


def visible(text: str) -> str:
    """`text` with the control characters escaped that would command a terminal."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def changes(candidate: Candidate, baseline: Candidate) -> dict[str, KnobValue]:
    """What of `candidate` differs from the baseline and from what happens by default."""
    defaults = encode(TrainingSettings(micro_batch=1))
    return {
        name: value
        for name, value in candidate.differences(baseline).items()
        if name in baseline or (value != DEFAULT and shown(value) != shown(defaults.get(name, "")))
    }


def settings_text(values: Mapping[str, KnobValue]) -> str:
    """`knob=value` pairs of what differs from the baseline."""
    return pins_text(values) or "as the baseline"


def rate_text(reading: Reading | None) -> str:
    """Samples/s with its spread between launches."""
    if reading is None:
        return "-"
    text = f"{reading.samples_per_second:,.1f} samples/s"
    if reading.spread_percent is not None:
        text += f" ± {reading.spread_percent:.1f} %"
    return f"{text} over {reading.launches} launch{'es' * (reading.launches != 1)}"


def ratio_text(ratio: Ratio) -> str:
    """A ratio as a gain in percent with its interval."""
    gain, low, high = (100 * (r - 1) for r in (ratio.estimate, ratio.low, ratio.high))
    return f"{gain:+.1f} % ({100 * ratio.confidence:.0f} % interval {low:+.1f} to {high:+.1f} %)"


def duration_text(seconds: float) -> str:
    """Seconds as `1 h 02 m`, `2 m 05 s` or `4.2 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} m"

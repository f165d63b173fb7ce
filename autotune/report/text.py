"""How figures and settings are said in a few words, in tables and in reports."""

import re
from collections.abc import Mapping

from autotune.exporters.text import pins_text
from autotune.exporters.text import shown as shown  # noqa: PLC0414 - reports need it too
from autotune.model import (
    DEFAULT,
    GIB,
    Candidate,
    KnobValue,
    Ratio,
    Reading,
    TrainingSettings,
    encode,
)
from autotune.model.instance import MIB

_CONTROL = re.compile(
    r"[^\n\t\x20-\x7e\xa0-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\U0010ffff]"
)
"""Also what turns the direction of text around, and surrogates, which have no form in UTF-8."""


def visible(text: str) -> str:
    """`text` with the control characters escaped that would command a terminal, or mislead."""
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


def size_text(size_bytes: int) -> str:
    """Bytes as `40.00 GiB` or `120 MiB`."""
    if size_bytes >= GIB:
        return f"{size_bytes / GIB:,.2f} GiB"
    return f"{size_bytes / MIB:,.0f} MiB"

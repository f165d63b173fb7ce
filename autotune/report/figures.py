"""The figures of a report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autotune.model import Outcome, Phase
from autotune.model.instance import GIB
from autotune.report.canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, canvas, shortened
from autotune.report.content import Launch, Report
from autotune.report.text import size_text, visible
from autotune.report.worth import Finding, ValueWorth, Worth

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_VALUES = 30
_MOST_PEAKS = 14
_ROW = 0.24
"""Inches of one row in a figure of rows."""
_FINDINGS = {
    Finding.FASTER: GREEN,
    Finding.SLOWER: RED,
    Finding.LITTLE: BLUE,
    Finding.UNKNOWN: GREY,
}
_PHASES = {
    Phase.BASELINE: ("s", GREY),
    Phase.SEARCH: ("o", BLUE),
    Phase.CONTEND: ("^", PURPLE),
    Phase.CONFIRM: ("D", ORANGE),
}


def history_figure(report: Report) -> str:
    """samples/s of every trial in order; failures along the bottom."""
    with canvas("history", 3.4) as drawn:
        axes = drawn.axes
        for phase, (marker, colour) in _PHASES.items():
            own = [launch for launch in report.history if launch.phase == phase]
            whole = [launch for launch in own if launch.outcome == Outcome.COMPLETED]
            _points(axes, whole, marker, colour, phase.value)
        stopped = [launch for launch in report.history if launch.outcome == Outcome.PRUNED]
        _points(axes, stopped, "o", "none", "stopped early", edge=BLUE)
        failed = [launch.trial for launch in report.history if launch.samples_per_second is None]
        if failed:
            bottom = axes.get_xaxis_transform()
            axes.plot(
                failed, [0.02] * len(failed), "x", color=RED, label="failed", transform=bottom
            )
        baseline = report.answer.baseline
        if baseline and baseline.reading:
            mean = baseline.reading.samples_per_second
            axes.axhline(mean, color=GREY, linewidth=1, zorder=1, label="baseline's mean")
        axes.set_xlabel("trial")
        axes.set_ylabel("samples/s")
        axes.margins(y=0.12)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=7, handletextpad=0.2)
    return drawn.svg


def _points(
    axes: "Axes",
    launches: Sequence[Launch],
    marker: str,
    colour: str,
    label: str,
    *,
    edge: str = "none",
) -> None:
    shown = [
        (launch.trial, launch.samples_per_second)
        for launch in launches
        if launch.samples_per_second is not None
    ]
    if shown:
        xs, ys = zip(*shown, strict=True)
        axes.scatter(
            xs, ys, s=26, marker=marker, facecolor=colour, edgecolor=edge, label=label, zorder=2
        )


def rounds_figure(report: Report) -> str:
    """samples/s of each arm in each round of confirmation."""
    rounds = report.answer.rounds
    names = list(dict.fromkeys(name for one in rounds for name in one.rates))
    with canvas("rounds", 2.4) as drawn:
        for name, colour, marker in zip(names, (GREY, ORANGE, BLUE), "sDo", strict=False):
            shown = [(one.number, one.rates[name]) for one in rounds if name in one.rates]
            xs, ys = zip(*shown, strict=True)
            drawn.axes.plot(xs, ys, marker, color=colour, markersize=5, label=visible(name))
            drawn.axes.axhline(sum(ys) / len(ys), color=colour, linewidth=1, linestyle="--")
        drawn.axes.set_xlabel("round")
        drawn.axes.set_ylabel("samples/s")
        drawn.axes.locator_params(axis="x", integer=True)
        drawn.axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return drawn.svg


def worth_figure(worth: Worth) -> str:
    """The effect of each value with its interval, knob by knob."""
    rows = [(knob.knob, value) for knob in worth.knobs for value in knob.values][:_MOST_VALUES]
    with canvas("worth", 0.8 + _ROW * len(rows)) as drawn:
        axes = drawn.axes
        for finding, colour in _FINDINGS.items():
            own = [(row, v) for row, (_, v) in enumerate(rows) if v.effect.finding is finding]
            if own:
                _spans(axes, own, colour, finding.value)
        axes.axvline(0, color=GREY, linewidth=1)
        labels = [visible(shortened(f"{knob}={value.value}")) for knob, value in rows]
        axes.set_yticks(range(len(rows)), labels)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel("effect on samples/s, %")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    return drawn.svg


def _spans(axes: "Axes", rows: Sequence[tuple[int, ValueWorth]], colour: str, label: str) -> None:
    at = [100 * value.effect.estimate for _, value in rows]
    below = [100 * (value.effect.estimate - value.effect.low) for _, value in rows]
    above = [100 * (value.effect.high - value.effect.estimate) for _, value in rows]
    axes.errorbar(
        at, [row for row, _ in rows], xerr=(below, above), fmt="o", color=colour, ecolor=colour,
        markersize=5, elinewidth=1.6, label=label,
    )  # fmt: skip


def steps_figure(report: Report) -> str:
    """Distributions of the time per step: boxes from 25 to 75 %, and every window."""
    times = report.steps
    with canvas("steps", 0.9 + 0.6 * len(times)) as drawn:
        axes = drawn.axes
        rows = list(range(len(times)))
        axes.boxplot(
            [one.windows_ms for one in times], positions=rows, orientation="horizontal",
            widths=0.5, showfliers=False, medianprops={"color": ORANGE, "linewidth": 2},
        )  # fmt: skip
        for row, one in zip(rows, times, strict=True):
            # Spread by their order, so that equal ones are seen.
            heights = [row + 0.4 * ((7 * i) % 10 / 10 - 0.45) for i in range(len(one.windows_ms))]
            axes.scatter(one.windows_ms, heights, s=7, color=BLUE, alpha=0.45, linewidth=0)
        axes.set_yticks(rows, [visible(one.arm) for one in times])
        axes.set_ylim(len(times) - 0.5, -0.5)
        axes.set_xlabel("milliseconds per step")
    return drawn.svg


def memory_figure(report: Report) -> str:
    """Peaks of the arms and of those that need most, and the limit."""
    peaks = [p for p in report.memory.peaks if p.arm] + [
        p for p in report.memory.peaks if not p.arm
    ]
    peaks = peaks[:_MOST_PEAKS]
    with canvas("memory", 0.8 + _ROW * len(peaks)) as drawn:
        axes = drawn.axes
        colours = [ORANGE if peak.arm else BLUE for peak in peaks]
        bars = axes.barh(
            range(len(peaks)), [p.bytes / GIB for p in peaks], color=colours, height=0.6
        )
        axes.bar_label(bars, [size_text(p.bytes) for p in peaks], padding=3, fontsize=9)
        limit = report.memory.limit_bytes
        if limit is not None:
            axes.axvline(limit / GIB, color=RED, linewidth=1.5, linestyle="--")
            axes.text(limit / GIB, -0.7, "limit ", color=RED, ha="right", va="bottom", fontsize=9)
        labels = [visible(shortened(p.arm or p.settings)) for p in peaks]
        axes.set_yticks(range(len(peaks)), labels)
        axes.set_ylim(len(peaks) - 0.4, -0.8)
        axes.set_xlabel("GiB")
    return drawn.svg

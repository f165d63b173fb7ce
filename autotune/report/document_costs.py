"""The sections on what was skipped, failed, and what trials took."""

from autotune.report.blocks import Block, Paragraph, Picture, Table
from autotune.report.content import Report
from autotune.report.figures import memory_figure, steps_figure
from autotune.report.text import size_text

_MOST_PEAKS = 20


def skipped(report: Report) -> list[Block]:
    """What was not launched, and what did nothing."""
    found = report.skipped
    blocks: list[Block] = []
    if found.unknown:
        blocks.append(Paragraph(text=f"What wasn't launched is not known here: {found.unknown}."))
    if found.search_ended:
        blocks.append(Paragraph(text=f"The search ended: {found.search_ended}."))
    if found.stopped:
        blocks.append(
            Paragraph(text=f"{found.stopped} trials were stopped early, for they had lost.")
        )
    if found.memory:
        blocks.append(Paragraph(text=f"By predicted memory: {found.memory}."))
    if found.candidates:
        rows = [(str(group.candidates), group.reason) for group in found.candidates]
        blocks.append(Table(columns=("candidates", "not launched, because"), rows=rows))
    elif not found.unknown and not found.memory:
        blocks.append(Paragraph(text="Everything that the search proposed was launched."))
    if found.no_effect:
        rows = [(name, why) for name, why in found.no_effect.items()]
        blocks.append(Table(columns=("had no effect", "what was seen"), rows=rows))
    if found.knobs:
        rows = [(", ".join(names), reason) for reason, names in found.knobs.items()]
        blocks.append(
            Table(columns=("knobs", "not searched"), rows=rows, summary="Knobs not searched")
        )
    return blocks


def failures(report: Report) -> list[Block]:
    """By outcome."""
    if not report.failures:
        return [Paragraph(text="No trial failed.")]
    rows = [
        (
            group.outcome,
            str(len(group.trials)),
            f"the {group.blamed}",
            _numbers(group.trials),
            group.reason,
        )
        for group in report.failures
    ]
    columns = ("outcome", "trials", "counts against", "which", "cause of the last one")
    return [Table(columns=columns, rows=rows)]


def _numbers(trials: tuple[int, ...], most: int = 12) -> str:
    text = ", ".join(map(str, trials[:most]))
    return text + (f", … {len(trials) - most} more" if len(trials) > most else "")


def steps(report: Report) -> list[Block]:
    """Distributions of the time per step."""
    if not report.steps:
        return [Paragraph(text="No step was measured.")]
    rows = [
        (
            times.arm,
            str(times.launches),
            str(len(times.windows_ms)),
            f"{times.p10_ms:.2f}",
            f"{times.median_ms:.2f}",
            f"{times.p90_ms:.2f}",
        )
        for times in report.steps
    ]
    return [
        Paragraph(
            text="Milliseconds per optimizer step on the slowest rank. Each value is the mean "
            "over a measured window of several steps."
        ),
        Picture(title="Time per step, by window", draw=lambda: steps_figure(report)),
        Table(columns=("", "launches", "windows", "10th percentile", "median", "90th"), rows=rows),
    ]


def memory(report: Report) -> list[Block]:
    """Measured peaks against the limit."""
    found = report.memory
    limit = (
        f"A rank may use {size_text(found.limit_bytes)} ({found.limit_source})."
        if found.limit_bytes is not None
        else "What a rank may use is not known."
    )
    if not found.peaks:
        return [Paragraph(text=f"{limit} No peak was {report.kind}.")]
    shown = [p for p in found.peaks if p.arm] + [p for p in found.peaks if not p.arm]
    rows = [
        (peak.arm, peak.settings, size_text(peak.bytes), _share(peak.bytes, found.limit_bytes))
        for peak in shown[:_MOST_PEAKS]
    ]
    return [
        Paragraph(text=f"{limit} Peaks are {report.kind} ones, of the rank that needs most."),
        Picture(title="Peak memory of a rank", draw=lambda: memory_figure(report)),
        Table(
            columns=("", "settings", "peak", "of the limit"),
            rows=rows,
            summary=f"{len(rows)} of {len(found.peaks)} candidates",
        ),
    ]


def communication(report: Report) -> list[Block]:
    """The share of communication that nothing hides."""
    if not report.communication:
        return [
            Paragraph(
                text="Not measured: the launches of confirmation measure it, where the device "
                "can be profiled."
            )
        ]
    rows = [
        (one.arm, one.settings, f"{100 * one.share:.1f} %", str(one.launches))
        for one in report.communication
    ]
    return [
        Paragraph(text="What a step would be shorter by if its collectives took no time."),
        Table(columns=("", "settings", "of a step", "launches"), rows=rows),
    ]


def _share(part: int, whole: int | None) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"

"""The section on what each knob was worth."""

from autotune.report.blocks import Block, Paragraph, Picture, Table
from autotune.report.content import Report
from autotune.report.figures import worth_figure
from autotune.report.worth import LITTLE, Finding, KnobWorth, Span

_MOST_PAIRS = 30


def worth(report: Report) -> list[Block]:
    """Importance by knob, the effect of each value, and pairs; with error bars."""
    found = report.worth
    if found is None:
        return [Paragraph(text="Not known: nothing but the baseline was measured.")]
    level = f"{100 * found.confidence:.0f} %"
    blocks: list[Block] = [
        Paragraph(
            text=f"Estimated from {found.readings} readings of {found.candidates} candidates, "
            f"which vary by {100 * found.launch_noise:.1f} % from launch to launch. Each interval "
            f"holds with {level}. A knob's importance is how much faster its best tried value is "
            "than its worst, all else as in the baseline. An effect is not known if its interval "
            f"has 0 in it and reaches beyond {100 * LITTLE:.0f} %, or if the trials said less "
            "than the model assumes beforehand."
        ),
        Table(
            columns=("knob", "best tried", "worst tried", "importance", f"{level} interval", ""),
            rows=[
                (knob.knob, knob.best, knob.worst, *_cells(knob.importance)[:2], _weight(knob))
                for knob in found.knobs
            ],
        ),
        Picture(
            title=f"Effect of each value on samples/s, all else as in the baseline, with {level} "
            "intervals",
            draw=lambda: worth_figure(found),
        ),
        Table(
            columns=(
                "knob",
                "value",
                "in place of",
                "candidates",
                "effect",
                f"{level} interval",
                "",
            ),
            rows=[
                (
                    knob.knob,
                    value.value,
                    value.instead_of,
                    str(value.candidates),
                    *_cells(value.effect),
                )
                for knob in found.knobs
                for value in knob.values
            ],
            summary="The effect of each value",
        ),
    ]
    if not found.pairs:
        return [*blocks, Paragraph(text="No two values were tried together more than once.")]
    known = sum(pair.effect.finding is not Finding.UNKNOWN for pair in found.pairs)
    shown = found.pairs[:_MOST_PAIRS]
    blocks.append(
        Table(
            columns=("one", "other", "candidates", "together", f"{level} interval", ""),
            rows=[
                (pair.one, pair.other, str(pair.candidates), *_cells(pair.effect)) for pair in shown
            ],
            summary=f"What pairs did beyond what each value does alone: {known} of "
            f"{len(found.pairs)} known, {len(shown)} shown",
        )
    )
    return blocks


def _cells(span: Span) -> tuple[str, str, str]:
    low, high = f"{100 * span.low:+.1f}", f"{100 * span.high:+.1f}"
    return (f"{100 * span.estimate:+.1f} %", f"{low} to {high} %", span.finding.value)


def _weight(knob: KnobWorth) -> str:
    return "matters" if knob.importance.finding is Finding.FASTER else knob.importance.finding

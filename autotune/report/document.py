"""What a report says, section by section."""

from autotune.exporters.text import defaults_text
from autotune.model import Conclusion, Reading
from autotune.report.arms import BASELINE
from autotune.report.blocks import Block, Commands, Document, Paragraph, Picture, Section, Table
from autotune.report.content import Arm, Report
from autotune.report.document_costs import (
    communication,
    failures,
    memory,
    skipped,
    steps,
)
from autotune.report.document_worth import worth
from autotune.report.figures import history_figure, rounds_figure
from autotune.report.text import duration_text, ratio_text, settings_text


def document(report: Report) -> Document:
    """The report in the order in which it is read."""
    is_simulated = report.kind == "simulated"
    unconfirmed = report.answer.conclusion not in (
        Conclusion.IMPROVED,
        Conclusion.KEEP_DEFAULTS,
    )
    return Document(
        title=f"autotune: {report.target}",
        badge=report.kind + (", not confirmed" if unconfirmed else ""),
        warning=is_simulated or unconfirmed,
        lead=report.answer.sentence,
        sections=[
            Section(title="Baseline and winner", blocks=_comparison(report)),
            Section(title="History", blocks=_history(report)),
            Section(title="What each knob was worth", blocks=worth(report)),
            Section(title="Skipped, and why", blocks=skipped(report)),
            Section(title="Failures", blocks=failures(report)),
            Section(title="Step times", blocks=steps(report)),
            Section(title="Memory", blocks=memory(report)),
            Section(title="Communication", blocks=communication(report)),
            Section(title="Machine and versions", blocks=_versions(report)),
            Section(title="Reproduce", blocks=_reproduce(report)),
        ],
    )


def _comparison(report: Report) -> list[Block]:
    answer = report.answer
    arms = [arm for arm in (answer.baseline, answer.winner) if arm]
    blocks: list[Block] = [Paragraph(text=note, important=True) for note in answer.notes]
    blocks.append(
        Table(
            columns=("", "samples/s", "spread", "launches", "stability", "settings"),
            rows=[_arm_row(arm) for arm in arms],
        )
    )
    if answer.ratio:
        gain = ratio_text(answer.ratio)
        blocks.append(Paragraph(text=f"Gain of the winner over the baseline: {gain}."))
    if answer.reason:
        blocks.append(Paragraph(text=f"Why: {answer.reason}."))
    if len(answer.rounds) > 1 and answer.winner:
        blocks.append(
            Picture(
                title="Confirmation: in each round every configuration was launched once, in "
                "random order",
                draw=lambda: rounds_figure(report),
            )
        )
    for arm in arms:
        if arm.environment:
            lines = [f"{name}={value}" for name, value in arm.environment.items()]
            blocks.append(Paragraph(text=f"Environment of the {arm.name}: {', '.join(lines)}"))
    return blocks


def _arm_row(arm: Arm) -> tuple[str, ...]:
    settings = (
        f"the {defaults_text(arm.settings)}"
        if arm.name == BASELINE
        else settings_text(arm.settings)
    )
    return (arm.name, *_reading_cells(arm.reading), settings)


def _reading_cells(reading: Reading | None) -> tuple[str, str, str, str]:
    if reading is None:
        return ("-", "-", "-", "-")
    spread = reading.spread_percent
    return (
        f"{reading.samples_per_second:,.1f}",
        "-" if spread is None else f"{spread:.1f} %",
        str(reading.launches),
        f"{reading.stability:.2f}",
    )


def _history(report: Report) -> list[Block]:
    took = duration_text(report.seconds)
    blocks: list[Block] = [
        Paragraph(
            text=f"{report.trials} trials in {took}, searched by the strategy {report.strategy}. "
            f"Status: {report.status}."
        )
    ]
    if any(launch.samples_per_second for launch in report.history):
        blocks.append(Picture(title="Every trial in order", draw=lambda: history_figure(report)))
    rows = [
        (
            str(launch.trial),
            launch.phase,
            launch.settings,
            "-" if launch.samples_per_second is None else f"{launch.samples_per_second:,.1f}",
            "-" if launch.stability is None else f"{launch.stability:.2f}",
            duration_text(launch.seconds),
            launch.outcome + (f": {launch.reason}" if launch.reason else ""),
        )
        for launch in report.history
    ]
    columns = ("trial", "for", "settings", "samples/s", "stability", "took", "outcome")
    blocks.append(Table(columns=columns, rows=rows, summary=f"All {len(rows)} trials"))
    return blocks


def _versions(report: Report) -> list[Block]:
    rows = [("machine", report.machine), *sorted(report.versions.items())]
    rows += [("autotune", f"{report.autotune} (wrote this report)"), ("run", report.run)]
    rows.append(("started", report.started))
    return [Table(columns=("what", "version or value"), rows=rows)]


def _reproduce(report: Report) -> list[Block]:
    notes = [Paragraph(text=note) for note in report.reproduce.notes]
    return [Commands(lines=report.reproduce.commands), *notes]

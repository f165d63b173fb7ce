"""TensorBoard: figures by trial, and each trial with its settings for the HPARAMS page."""

import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from autotune.tracking.base import Closing, Entry, Opening, Tracker


class TensorBoardTracker(Tracker):
    """Event files in FOLDER/RUN, and in a folder of its own for each trial in there."""

    def __init__(self, folder: str) -> None:
        self._root = Path(folder)
        self._folder = self._root
        self._writer: EventFileWriter | None = None

    def begin(self, opening: Opening) -> None:
        self._folder = self._root / opening.run
        self._writer = EventFileWriter(str(self._folder))
        self._texts("study", opening.texts)

    def add(self, entry: Entry) -> None:
        self._write(_scalars(entry.figures), entry.number)
        self._write(text_pb("outcome", _lines(entry.texts)), entry.number)
        writer = EventFileWriter(str(self._folder / f"trial-{entry.number:04d}"))
        try:
            for summary in (hparams_pb(dict(entry.settings)), _scalars(entry.figures)):
                writer.add_event(_event(summary, entry.number))
        finally:
            writer.close()

    def end(self, closing: Closing) -> None:
        self._texts("answer", closing.texts)
        self._write(_scalars({f"answer/{n}": v for n, v in closing.figures.items()}), 0)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _texts(self, name: str, texts: Mapping[str, str]) -> None:
        self._write(text_pb(name, _lines(texts)), 0)

    def _write(self, summary: Summary, step: int) -> None:
        if self._writer is not None:
            self._writer.add_event(_event(summary, step))
            self._writer.flush()


def _event(summary: Summary, step: int) -> Event:
    return Event(wall_time=time.time(), step=step, summary=summary)


def _scalars(figures: Mapping[str, float]) -> Summary:
    return Summary(value=[Summary.Value(tag=n, simple_value=v) for n, v in figures.items()])


def _lines(texts: Mapping[str, str]) -> str:
    """A table in Markdown, which TensorBoard shows."""
    rows = (f"| {name} | {_cell(text)} |" for name, text in texts.items() if text)
    return "\n".join(["| | |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

"""Lines of figures that a SageMaker training job's metric definitions find in its log.

autotune.samples_per_s=123.400; autotune.best_samples_per_s=130.100;
"""

import sys
from collections.abc import Mapping

from autotune.errors import FieldError
from autotune.tracking.base import Closing, Entry, Opening, Tracker

_PLACES = ("stderr",)
_OF_ANSWERS = {
    "baseline_samples_per_second": "autotune.baseline_samples_per_s",
    "winner_samples_per_second": "autotune.best_samples_per_s",
    "gain_percent": "autotune.gain_percent",
}
METRICS = ("autotune.samples_per_s", *_OF_ANSWERS.values())
"""All that a log may have."""


def metric_regex(metric: str) -> str:
    """What finds the figure of one of METRICS, in the syntax of metric definitions."""
    return metric.replace(".", r"\.") + r"=(-?[0-9.]+);"


class CloudWatchTracker(Tracker):
    """One line on stderr for each trial that has measured something, and one for the answer."""

    def __init__(self, place: str) -> None:
        if place not in _PLACES:
            raise FieldError(
                "--log-to", f"cloudwatch:{place}", "has no other place", alternatives=_PLACES
            )
        self._best = 0.0

    def begin(self, opening: Opening) -> None:
        """Nothing to open."""

    def add(self, entry: Entry) -> None:
        rate = entry.figures.get("samples_per_second")
        if rate is None or entry.texts.get("outcome") != "completed":
            return
        self._best = max(self._best, rate)
        _write({"autotune.samples_per_s": rate, "autotune.best_samples_per_s": self._best})

    def end(self, closing: Closing) -> None:
        _write({_OF_ANSWERS[n]: v for n, v in closing.figures.items() if n in _OF_ANSWERS})

    def close(self) -> None:
        """Every line is written already."""


def _write(figures: Mapping[str, float]) -> None:
    if figures:
        # At once, so that other lines don't come between.
        sys.stderr.write(" ".join(f"{n}={v:.3f};" for n, v in figures.items()) + "\n")
        sys.stderr.flush()

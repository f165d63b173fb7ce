"""The score of a launch: samples/s x stability, every component shown."""

from dataclasses import dataclass
from statistics import median

from autotune.model import Timings
from autotune.scoring.outliers import outliers


@dataclass(frozen=True, kw_only=True)
class Score:
    """How good a launch was. Higher is better."""

    samples_per_second: float
    tail: float
    """Median over 90th-percentile time per step, in (0, 1]: 1 when all windows are alike."""
    allocation: float
    """1 / (1 + CUDA allocator retries), in (0, 1]: retries stall every stream."""

    outliers: tuple[int, ...] = ()
    """Positions of disturbed windows. They count like the others: the median bears them."""

    @property
    def stability(self) -> float:
        """Product of the components, in (0, 1]."""
        return self.tail * self.allocation

    @property
    def value(self) -> float:
        return self.samples_per_second * self.stability


def score(measurement: Timings) -> Score:
    """Score a launch from its raw windows.

    The throughput is the median over windows, so that one disturbed window doesn't decide.
    """
    step_s = [window.seconds / window.steps for window in measurement.windows]
    return Score(
        samples_per_second=median(w.samples_per_second for w in measurement.windows),
        tail=median(step_s) / _percentile(step_s, 0.9),
        allocation=1 / (1 + measurement.allocator_retries),
        outliers=tuple(outliers(step_s)),
    )


def _percentile(values: list[float], share: float) -> float:
    """The value below which `share` of `values` lie, by linear interpolation (Hyndman-Fan 7)."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])

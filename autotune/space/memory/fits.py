"""Whether a candidate fits: by prediction, and by what trials have shown."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from autotune.model.instance import GIB
from autotune.space.memory.calibration import MAX_SAMPLES, Calibration, Sample, calibrate
from autotune.space.memory.capacity import Capacity
from autotune.space.memory.predicted import PredictedMemory, needs_at_least


class Fit(StrEnum):
    """Whether a candidate has room."""

    FITS = "fits"
    NEAR = "near"
    """The prediction is too uncertain to say."""
    CANNOT = "cannot"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The answer for one candidate."""

    fit: Fit
    needed_bytes: float
    """After calibration."""
    reason: str = ""
    """One sentence if it doesn't simply fit."""


class Known:
    """What trials have shown. It stays short, for it is gone through after each of thousands."""

    def __init__(
        self, completed: Iterable[Sample] = (), exhausted: Iterable[PredictedMemory] = ()
    ) -> None:
        self.samples: dict[PredictedMemory, Sample] = {}
        """The latest, one for each prediction: what a calibration uses."""
        self.demanding: list[PredictedMemory] = []
        """Predictions of completed trials, without those that another needs at least as much as."""
        self.exhausted: dict[PredictedMemory, None] = {}
        """Predictions for those that ran out of memory."""
        for sample in completed:
            self.complete(sample)
        for predicted in exhausted:
            self.exhaust(predicted)

    def complete(self, sample: Sample) -> None:
        """Take in a completed trial."""
        done = sample.predicted
        self.samples.pop(done, None)
        self.samples[done] = sample
        if len(self.samples) > MAX_SAMPLES:
            del self.samples[next(iter(self.samples))]
        if not any(needs_at_least(other, done) for other in self.demanding):
            self.demanding = [one for one in self.demanding if not needs_at_least(done, one)]
            self.demanding.append(done)

    def exhaust(self, predicted: PredictedMemory) -> None:
        """Take in a trial that ran out of memory."""
        self.exhausted[predicted] = None


class Judge:
    """Judges candidates by one state of knowledge."""

    def __init__(self, capacity: Capacity, known: Known) -> None:
        self.calibration: Calibration = calibrate(list(known.samples.values()))
        self._capacity = capacity
        self._completed = list(known.demanding)
        # One that more demanding candidates survived ran out for another reason.
        self._exhausted = [
            failed
            for failed in known.exhausted
            if not any(needs_at_least(done, failed) for done in self._completed)
        ]
        correct = self.calibration.correct
        # What has been seen to run shows more than a capacity that was looked up. A correction
        # grows with every component, so that the most demanding ones are enough.
        self._room = max([float(capacity.per_rank_bytes), *map(correct, self._completed)])
        self._least_exhausted = min(map(correct, self._exhausted), default=float("inf"))

    def judge(self, predicted: PredictedMemory) -> Judgement:
        """Whether the candidate with this prediction fits."""
        needed = self.calibration.correct(predicted)
        if any(needs_at_least(predicted, failed) for failed in self._exhausted):
            reason = "it needs at least as much as a candidate that ran out of memory"
            return Judgement(fit=Fit.CANNOT, needed_bytes=needed, reason=reason)
        if any(needs_at_least(done, predicted) for done in self._completed):
            return Judgement(fit=Fit.FITS, needed_bytes=needed)
        margin = self.calibration.uncertainty
        if needed * (1 - margin) > self._room:
            fit, end = Fit.CANNOT, f"can't fit into {self._capacity.describe()}"
        elif needed * (1 + margin) > self._room:
            fit, end = Fit.NEAR, f"may not fit into {self._capacity.describe()}"
        elif needed >= self._least_exhausted:
            fit, end = Fit.NEAR, "is no less than one that ran out of memory"
        else:
            return Judgement(fit=Fit.FITS, needed_bytes=needed)
        size = f"{needed / GIB:.2f} GiB ± {100 * margin:.0f} %"
        reason = f"it is predicted to need {size}, which {end}"
        return Judgement(fit=fit, needed_bytes=needed, reason=reason)

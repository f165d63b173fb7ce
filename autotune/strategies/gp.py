"""Optuna's Gaussian process, driven by ask and tell."""

from collections.abc import Collection, Sequence
from statistics import fmean

import optuna
from optuna.trial import TrialState

from autotune.model import Candidate
from autotune.space.space import Space
from autotune.strategies.flat import FlatSpace
from autotune.strategies.optuna_study import OptunaStrategy, distribution, finished, new_study


class GpStrategy(OptunaStrategy):
    """A Gaussian process over all searched knobs at once, with log expected improvement.

    Optuna's sampler models only the knobs that all told candidates have, and draws the others at
    random without a word. So it is given a flat space, in which a missing knob has its default.

    Every candidate is asked of a new study, which costs little beside the fit. A proposal that
    comes to a told candidate (it differs only in a knob that doesn't exist there) is told to that
    study with what is known, so that the next one lies elsewhere.
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self._flat = FlatSpace(space)
        self._distributions = {
            axis.knob.name: distribution(len(axis.values), ordered=axis.knob.ordered)
            for axis in self._flat.axes
        }
        self._values: dict[Candidate, list[float | None]] = {}
        self._feasible: list[float] = []
        self._any_infeasible = False

    def sampler(self, seed: int) -> optuna.samplers.BaseSampler:
        return optuna.samplers.GPSampler(seed=seed)

    def study(self, beside: Collection[Candidate]) -> optuna.Study:
        study = new_study()
        for candidate, values in self._values.items():
            self._add(study, self._flat.point(candidate), values)
        for candidate in beside:  # as if they did as is usual, so that others look better
            self._add(study, self._flat.point(candidate), [self._neutral])
        return study

    def propose(self, study: optuna.Study) -> Candidate:
        trial = study.ask(self._distributions)
        candidate = self._flat.candidate(trial.params)
        study.tell(trial, state=TrialState.FAIL)
        self._add(study, trial.params, self._values.get(candidate, []))
        return candidate

    def learn(self, candidate: Candidate, value: float | None) -> None:
        self._values.setdefault(candidate, []).append(value)
        if value is None:
            self._any_infeasible = True
        else:
            self._feasible.append(value)

    @property
    def _neutral(self) -> float:
        return fmean(self._feasible) if self._feasible else 0.0

    def _add(
        self, study: optuna.Study, point: dict[str, int], values: Sequence[float | None]
    ) -> None:
        # An infeasible value is the mean, which the process expects where nothing is known: only
        # the constraint shall learn from it, whose own process is fitted once there is one.
        for value in values:
            study.add_trial(
                finished(
                    point,
                    self._distributions,
                    self._neutral if value is None else value,
                    infeasible=value is None if self._any_infeasible else None,
                )
            )

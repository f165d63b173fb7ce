"""Optuna's tree-structured Parzen estimator, driven by ask and tell."""

from collections.abc import Collection

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import TrialState

from autotune.model import Candidate, KnobValue
from autotune.space.space import Question, Space
from autotune.strategies.optuna_study import (
    OptunaStrategy,
    distribution,
    finished,
    new_study,
    running,
)


class TpeStrategy(OptunaStrategy):
    """TPE over a space whose knobs are asked only where they exist.

    What is told enters Optuna's study as a finished trial, and what was only asked never does:
    a resumed study then holds what an uninterrupted one would. A knob that exists in some
    candidates is estimated from those alone.
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self._study = new_study()
        self._running: dict[Candidate, int] = {}
        """Trials under way that the study knows of, by their numbers there."""

    def sampler(self, seed: int) -> optuna.samplers.BaseSampler:
        # Trials under way count as bad ones, so that others are proposed.
        return optuna.samplers.TPESampler(seed=seed, constant_liar=bool(self._running))

    def study(self, beside: Collection[Candidate]) -> optuna.Study:
        gone = [candidate for candidate in self._running if candidate not in beside]
        for candidate in gone:
            self._study.tell(self._running.pop(candidate), state=TrialState.FAIL)
        for candidate in beside:
            if candidate not in self._running:
                self._running[candidate] = len(self._study.get_trials(deepcopy=False))
                self._study.add_trial(running(*self._asked(candidate)))
        return self._study

    def propose(self, study: optuna.Study) -> Candidate:
        trial = study.ask()
        candidate = self.space.build(lambda question: _suggest(trial, question))
        study.tell(trial, state=TrialState.FAIL)
        return candidate

    def learn(self, candidate: Candidate, value: float | None) -> None:
        params, distributions = self._asked(candidate)
        # TPE ranks infeasible trials below all feasible ones and never looks at their value.
        trial = finished(params, distributions, value or 0.0, infeasible=value is None)
        self._study.add_trial(trial)

    def _asked(self, candidate: Candidate) -> tuple[dict[str, int], dict[str, BaseDistribution]]:
        """What `candidate` answers, and among what."""
        params: dict[str, int] = {}
        distributions: dict[str, BaseDistribution] = {}
        for question, answer in self.space.questions(candidate):
            params[question.name] = _index(question, answer)
            distributions[question.name] = _distribution(question)
        return params, distributions


def _distribution(question: Question) -> BaseDistribution:
    return distribution(len(question.values), ordered=question.knob.ordered)


def _index(question: Question, answer: KnobValue) -> int:
    return [str(value) for value in question.values].index(str(answer))


def _suggest(trial: optuna.Trial, question: Question) -> KnobValue:
    count = len(question.values)
    if question.knob.ordered:
        return question.values[trial.suggest_int(question.name, 0, count - 1)]
    return question.values[trial.suggest_categorical(question.name, list(range(count)))]

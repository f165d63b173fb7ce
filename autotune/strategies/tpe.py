"""Optuna's tree-structured Parzen estimator, driven by ask and tell."""

import random

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from autotune.model import Candidate, KnobValue
from autotune.space.space import Question, Space
from autotune.strategies.base import SearchStrategy

_ATTEMPTS = 5
"""Proposals that may repeat an old candidate before an untried one is drawn at random."""
_RESERVOIR = 1000
_INFEASIBLE = "infeasible"

optuna.logging.set_verbosity(optuna.logging.WARNING)


class TpeStrategy(SearchStrategy):
    """TPE over a space whose knobs are asked only where they exist.

    What is told enters Optuna's study as a finished trial, and what was only asked never does:
    a resumed study then holds what an uninterrupted one would.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._seed = seed
        self._told: set[Candidate] = set()
        self._study = optuna.create_study(direction="maximize")

    def ask(self) -> Candidate | None:
        for attempt in range(_ATTEMPTS):
            candidate = self._propose(attempt)
            if candidate not in self._told:
                return candidate
        return self._draw_untold()

    def tell(self, candidate: Candidate, value: float | None) -> None:
        params: dict[str, int] = {}
        distributions: dict[str, BaseDistribution] = {}
        for question, answer in self._space.questions(candidate):
            params[question.name] = _index(question, answer)
            distributions[question.name] = _distribution(question)
        # TPE ranks infeasible trials below all feasible ones and never looks at their value.
        trial = create_trial(
            value=0.0 if value is None else value,
            params=params,
            distributions=distributions,
            constraints={_INFEASIBLE: 1.0 if value is None else 0.0},
        )
        self._study.add_trial(trial)
        self._told.add(candidate)

    def _propose(self, attempt: int) -> Candidate:
        self._study.sampler = optuna.samplers.TPESampler(
            seed=random.Random(f"{self._seed}:{len(self._told)}:{attempt}").getrandbits(32)
        )
        trial = self._study.ask()

        def choose(question: Question) -> KnobValue:
            index = _suggest(trial, question)
            return question.values[index]

        candidate = self._space.build(choose)
        self._study.tell(trial, state=TrialState.FAIL)
        return candidate

    def _draw_untold(self) -> Candidate | None:
        """One of the first untold candidates, at random; None if the space is exhausted."""
        untold: list[Candidate] = []
        for candidate in self._space.candidates():
            if candidate not in self._told:
                untold.append(candidate)
            if len(untold) == _RESERVOIR:
                break
        rng = random.Random(f"{self._seed}:{len(self._told)}:untold")
        return rng.choice(untold) if untold else None


def _distribution(question: Question) -> BaseDistribution:
    """Over the index of the value: values may be of mixed types, and neighbours matter."""
    count = len(question.values)
    if question.knob.ordered:
        return IntDistribution(0, count - 1)
    return CategoricalDistribution(range(count))


def _index(question: Question, answer: KnobValue) -> int:
    return [str(value) for value in question.values].index(str(answer))


def _suggest(trial: optuna.Trial, question: Question) -> int:
    count = len(question.values)
    if question.knob.ordered:
        return trial.suggest_int(question.name, 0, count - 1)
    return int(trial.suggest_categorical(question.name, list(range(count))))

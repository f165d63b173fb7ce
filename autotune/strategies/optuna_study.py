"""What the strategies that Optuna's samplers propose for have in common."""

import random
from abc import abstractmethod
from collections.abc import Collection

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from autotune.model import Candidate
from autotune.space.space import Space
from autotune.strategies.base import SearchStrategy
from autotune.strategies.untold import Untold

_ATTEMPTS = 5
"""Proposals that may repeat a told candidate before an untold one is drawn at random."""
_INFEASIBLE = "infeasible"
"""Name of the constraint: above 0 for a candidate that can't work, else 0."""

optuna.logging.set_verbosity(optuna.logging.WARNING)


class OptunaStrategy(SearchStrategy):
    """Has a sampler propose, a fresh one each time, seeded by the number of told candidates.

    A subclass says how told candidates become a study, and a trial of it a candidate.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self._seed = seed
        self._untold = Untold(space)

    def ask(self, beside: Collection[Candidate] = ()) -> Candidate | None:
        if len(self._untold.first(_ATTEMPTS + 1, beside)) <= _ATTEMPTS:
            # Most proposals would be repeats, and all of the rest is measured soon.
            return self._untold.draw(self._random("rest", beside), beside)
        study = self.study(beside)
        for attempt in range(_ATTEMPTS):
            study.sampler = self.sampler(self._random(attempt, beside).getrandbits(32))
            candidate = self.propose(study)
            if candidate in self._untold and candidate not in beside:
                return candidate
        return self._untold.draw(self._random("untold", beside), beside)

    def tell(self, candidate: Candidate, value: float | None) -> None:
        self.learn(candidate, value)
        self._untold.tell(candidate)

    @abstractmethod
    def sampler(self, seed: int) -> BaseSampler:
        """A new sampler."""

    @abstractmethod
    def study(self, beside: Collection[Candidate]) -> optuna.Study:
        """The study that holds what was told and knows of those `beside`, to be asked."""

    @abstractmethod
    def propose(self, study: optuna.Study) -> Candidate:
        """What `study`'s sampler proposes, which may have been told already."""

    @abstractmethod
    def learn(self, candidate: Candidate, value: float | None) -> None:
        """Keep what is known of `candidate` for `study`; None if it is infeasible."""

    def _random(self, purpose: object, beside: Collection[Candidate]) -> random.Random:
        known = self._untold.told + len(beside)
        return random.Random(f"{self._seed}:{known}:{purpose}")


def new_study() -> optuna.Study:
    """An empty study, in memory."""
    return optuna.create_study(direction="maximize")


def distribution(count: int, *, ordered: bool) -> BaseDistribution:
    """Over the index of a value: values may be of mixed types, and neighbours matter."""
    return IntDistribution(0, count - 1) if ordered else CategoricalDistribution(range(count))


def finished(
    params: dict[str, int],
    distributions: dict[str, BaseDistribution],
    value: float,
    *,
    infeasible: bool | None,
) -> FrozenTrial:
    """A trial that ended, for a study to hold; `infeasible` is None in one without constraints."""
    return create_trial(
        value=value,
        params=params,
        distributions=distributions,
        constraints={} if infeasible is None else {_INFEASIBLE: float(infeasible)},
    )


def running(params: dict[str, int], distributions: dict[str, BaseDistribution]) -> FrozenTrial:
    """A trial that is under way, for a study to know of."""
    return create_trial(state=TrialState.RUNNING, params=params, distributions=distributions)

"""Our own search: large factors first, then the transport, until nothing better is likely.

Each value of a large knob is launched once. From then on a Bayesian linear model of log(score)
pools what all trials say of each knob, and what is proposed has the largest expected improvement
over the best: combinations of large knobs first, whose priors are wide, then small ones. Source of
the criterion: Jones, Schonlau and Welch, Efficient Global Optimization of Expensive Black-Box
Functions (1998).
"""

import math
import random
from collections import Counter
from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from autotune.model import Candidate, KnobValue
from autotune.scoring.improvement import expected_improvement, told_by_one
from autotune.scoring.noise import PRIOR_LAUNCH, Pool
from autotune.space.conditions import same
from autotune.space.knob import Effect
from autotune.space.space import Question, Space, default_of
from autotune.strategies.base import Comparison, SearchStrategy
from autotune.strategies.knob_features import LEVEL, features, own
from autotune.strategies.linear_model import LinearModel

WORTH = 0.001
"""Expected gain, relative, below which a further trial isn't worth its time."""
BASES = 4
"""Best candidates whose neighbours are looked at, beside the best of each strategy: a strategy that
is slow with its defaults may be the fastest with others."""
DRAWN = 20
"""Candidates drawn at random beside the neighbours, so that no corner is out of reach."""
MOST_OWN = 300
"""Candidates with an effect of their own in the model: more would make it slow."""
REFIT = 1.5
"""Factor by which the noise has to be off for the model to be fitted anew."""


class StagedStrategy(SearchStrategy):
    """Expected improvement by an additive model of the knobs' effects."""

    patience = None
    exhausted = f"no other candidate is expected to gain {100 * WORTH:g} %"

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._seed = seed
        self._screening = (
            *single_changes(space, Effect.LARGE),
            *single_changes(space, Effect.MEDIUM),
        )
        """The first stage, which is gone through whatever it shows."""
        self.pivotal = frozenset(single_changes(space, Effect.LARGE))
        self._told: dict[Candidate, list[float]] = {}
        """log(score) of each launch; none for what can't work."""
        self._order: list[tuple[Candidate, float]] = []
        """All readings, for a fit anew."""
        self._noise = PRIOR_LAUNCH
        self._model = LinearModel(PRIOR_LAUNCH)
        self._centre: float | None = None
        self._own: set[Candidate] = set()
        self._worked: Counter[tuple[str, str]] = Counter()
        self._failed: Counter[tuple[str, str]] = Counter()
        self._neighbours: dict[Candidate, tuple[Candidate, ...]] = {}
        self._index: dict[Candidate, NDArray[np.intp]] = {}

    def ask(self, beside: Collection[Candidate] = ()) -> Candidate | None:
        passed = {*self._told, *beside}
        if untried := next((c for c in self._screening if c not in passed), None):
            return untried
        if not self._order:
            return next(iter(self._pool([self._space.baseline()], beside)), None)
        bases = self._bases()
        pool = list(self._pool(bases, beside))
        # All of them before the model is copied, which then knows their features.
        known = {candidate: self._known(candidate) for candidate in [*pool, *beside]}
        model = self._model.supposing(known[c] for c in beside) if beside else self._model
        best = self._predict(bases[0])[0]
        worths = {c: self._worth(c, model.predict(known[c]), best) for c in pool}
        if not worths:
            return None
        chosen = max(worths, key=lambda candidate: worths[candidate])
        return chosen if worths[chosen] >= WORTH else None

    def tell(self, candidate: Candidate, value: float | None) -> None:
        told = self._told.setdefault(candidate, [])
        values = _values(candidate)
        if value is None:
            self._failed.update(values)
            return
        self._worked.update(values)
        reading = math.log(value)
        if self._centre is None:
            self._centre = reading
        told.append(reading)
        self._order.append((candidate, reading))
        self._learn(candidate, reading - self._centre)
        if len(told) > 1:
            self._learn_noise()

    def compare(self, one: Candidate, other: Candidate) -> Comparison | None:
        ahead, deviation = self._model.difference(self._known(one), self._known(other))
        return Comparison(ahead=ahead, deviation=deviation)

    def _learn(self, candidate: Candidate, reading: float) -> None:
        if candidate not in self._own and len(self._own) < MOST_OWN:
            self._own.add(candidate)
            self._index.pop(candidate, None)
        self._model.learn(self._known(candidate), reading)

    def _known(self, candidate: Candidate) -> NDArray[np.intp]:
        if candidate not in self._index:
            alone = own(candidate) if candidate in self._own else {}
            effects = features(self._space, candidate)
            self._index[candidate] = self._model.index(effects, {**LEVEL, **alone})
        return self._index[candidate]

    def _bases(self) -> list[Candidate]:
        """The candidates that are thought best, the best first, and the best of each strategy."""
        working = [candidate for candidate, told in self._told.items() if told]
        ranked = sorted(working, key=lambda candidate: -self._predict(candidate)[0])
        of_strategy = {str(c.get("strategy")): c for c in reversed(ranked)}
        return list(dict.fromkeys([*ranked[:BASES], *of_strategy.values()]))

    def _pool(self, bases: list[Candidate], beside: Collection[Candidate]) -> Iterator[Candidate]:
        """Untold candidates that are worth a thought, less `beside`."""
        seen = {*self._told, *beside}
        for base in bases:
            if base not in self._neighbours:
                self._neighbours[base] = tuple(neighbours(self._space, base))
        rng = random.Random(f"{self._seed}:{len(self._order) + len(beside)}")
        near = [candidate for base in bases for candidate in self._neighbours[base]]
        drawn = (self._space.build(lambda q: rng.choice(q.values)) for _ in range(DRAWN))
        for candidate in [*near, *drawn]:
            if candidate not in seen:
                seen.add(candidate)
                yield candidate

    def _predict(self, candidate: Candidate) -> tuple[float, float]:
        return self._model.predict(self._known(candidate))

    def _worth(self, candidate: Candidate, predicted: tuple[float, float], best: float) -> float:
        """What a launch of it is expected to show beyond `best`, times the chance that it works."""
        mean, deviation = predicted
        shown = told_by_one(deviation, self._noise)
        return self._chance(candidate) * expected_improvement(mean - best, shown)

    def _chance(self, candidate: Candidate) -> float:
        """By its least proven value: a value that has never failed counts as good.

        Squared, for a launch that fails often costs a time limit on top of telling nothing.
        """
        return min(
            ((self._worked[value] + 1) / (self._worked[value] + self._failed[value] + 1)) ** 2
            for value in _values(candidate)
        )

    def _learn_noise(self) -> None:
        pool = Pool(PRIOR_LAUNCH)
        for told in self._told.values():
            pool.add(told)
        if 1 / REFIT < pool.deviation / self._noise < REFIT or self._centre is None:
            return
        self._noise = pool.deviation
        self._model = LinearModel(self._noise)
        self._index = {}
        for candidate, reading in self._order:
            self._learn(candidate, reading - self._centre)


def single_changes(space: Space, effect: Effect) -> tuple[Candidate, ...]:
    """The baseline with one knob of this effect changed: each of its values once."""
    base = space.baseline()
    return tuple(
        _changed(space, base, question.knob.name, other)
        for question, value in space.questions(base)
        if question.knob.effect is effect
        for other in question.values
        if not same(other, value)
    )


def neighbours(space: Space, base: Candidate) -> Iterator[Candidate]:
    """The candidates with one knob changed, and what that makes impossible at its default."""
    for question, value in space.questions(base):
        for other in question.values:
            if not same(other, value):
                yield _changed(space, base, question.knob.name, other)


def _changed(space: Space, base: Candidate, name: str, value: KnobValue) -> Candidate:
    def choose(question: Question) -> KnobValue:
        wanted = value if question.knob.name == name else base.get(question.knob.name)
        known = [v for v in question.values if wanted is not None and same(v, wanted)]
        return known[0] if known else default_of(question.knob, question.values)

    return space.build(choose)


def _values(candidate: Candidate) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in candidate.items()]

"""Our own search: large factors first, then the transport, until nothing better is likely.

Each value of a large or medium knob is launched once. From then on a model of log(score) pools what
all trials say of each knob, and what is proposed has the largest expected improvement over the
best: combinations of large knobs first, whose priors are wide, then small ones. Source of the
criterion: Jones, Schonlau and Welch, Efficient Global Optimization of Expensive Black-Box Functions
(1998).
"""

import math
import random
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice

from autotune.model import Candidate
from autotune.scoring.improvement import shown_by_one
from autotune.scoring.noise import PRIOR_LAUNCH, Pool
from autotune.space.knob import Effect
from autotune.space.space import Space
from autotune.strategies.base import Comparison, SearchStrategy
from autotune.strategies.effects_model import EffectsModel
from autotune.strategies.knob_features import FeatureTable
from autotune.strategies.neighbourhood import neighbours, single_changes

WORTH = 0.0003
"""Expected gain, relative, below which a further trial isn't worth its time."""
BASES = 4
"""Best candidates whose neighbours are looked at, beside the best of each strategy: a strategy that
is slow with its defaults may be the fastest with others."""
DRAWN = 20
"""Candidates drawn at random beside the neighbours, so that no corner is out of reach."""
MOST_STEPS = 6
"""From there to ever worthier neighbours: the model knows of candidates that nothing is near to."""


class StagedStrategy(SearchStrategy):
    """Expected improvement by a model of the knobs' effects, alone and beside large knobs."""

    patience = None
    unpromising = f"no launch of another candidate is expected to show a gain of {100 * WORTH:g} %"
    exhausted = unpromising

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
        self._readings = 0
        self._noise = PRIOR_LAUNCH
        self._table = FeatureTable(space)
        self._fitted: EffectsModel | None = None
        self._worked: Counter[tuple[str, str]] = Counter()
        self._failed: Counter[tuple[str, str]] = Counter()
        self._neighbours: dict[Candidate, tuple[Candidate, ...]] = {}

    def ask(self, beside: Collection[Candidate] = ()) -> Candidate | None:
        found = self._worth_trying(beside)
        if found is None:
            has_all = self._has_tried_all(beside)
            self.exhausted = SearchStrategy.exhausted if has_all else self.unpromising
        return found

    def _has_tried_all(self, beside: Collection[Candidate]) -> bool:
        passed = {*self._told, *beside}
        return all(one in passed for one in islice(self._space.candidates(), len(passed) + 1))

    def _worth_trying(self, beside: Collection[Candidate]) -> Candidate | None:
        passed = {*self._told, *beside}
        if untried := next((c for c in self._screening if c not in passed), None):
            return untried
        if not self._readings:
            return next(iter(self._pool([self._space.baseline()], beside)), None)
        model = self._model
        bases = self._bases(model)
        pool = self._pool(bases, beside)
        if beside:
            model = model.supposing(list(beside))
        return self._climb(model, bases[0], pool, {*passed, *pool})

    def tell(self, candidate: Candidate, value: float | None) -> None:
        told = self._told.setdefault(candidate, [])
        values = _values(candidate)
        if value is None:
            self._failed.update(values)
            return
        self._worked.update(values)
        told.append(math.log(value))
        self._readings += 1
        self._fitted = None

    def compare(self, one: Candidate, other: Candidate) -> Comparison | None:
        return self._model.compare(one, other) if self._readings else None

    @property
    def _model(self) -> EffectsModel:
        if self._fitted is None:
            pool = Pool(PRIOR_LAUNCH)
            for told in self._told.values():
                pool.add(told)
            self._noise = pool.deviation
            self._fitted = EffectsModel.of(self._table, self._told, self._noise)
        return self._fitted

    def _bases(self, model: EffectsModel) -> list[Candidate]:
        """The candidates that are thought best, the best first, and the best of each strategy."""
        ranked = model.ranked()
        of_strategy = {str(c.get("strategy")): c for c in reversed(ranked)}
        return list(dict.fromkeys([*ranked[:BASES], *of_strategy.values()]))

    def _climb(
        self, model: EffectsModel, best: Candidate, pool: list[Candidate], seen: set[Candidate]
    ) -> Candidate | None:
        """The worthiest of `pool`, or of what is reached from it; None if nothing is worth it."""
        chosen, most = self._worthiest(model, best, pool)
        for _ in range(MOST_STEPS):
            if chosen is None:
                break
            near = [one for one in self._near(chosen) if one not in seen]
            seen.update(near)
            higher, worth = self._worthiest(model, best, near)
            if higher is None or worth <= most:
                break
            chosen, most = higher, worth
        return chosen

    def _worthiest(
        self, model: EffectsModel, best: Candidate, pool: list[Candidate]
    ) -> tuple[Candidate | None, float]:
        """The one whose launch is expected to show most beyond `best`, and what that is."""
        if not pool:
            return None, 0.0
        beyond, deviations = model.predict([best, *pool])
        beyond = beyond[:, 1:] - beyond[:, :1]
        shown = model.weights @ shown_by_one(beyond, deviations[:, 1:], self._noise)
        worths = [self._chance(one) * worth for one, worth in zip(pool, shown, strict=True)]
        most = max(worths)
        return (pool[worths.index(most)] if most >= WORTH else None), most

    def _pool(self, bases: Sequence[Candidate], beside: Collection[Candidate]) -> list[Candidate]:
        """Candidates that are worth a thought: neighbours of `bases`, and some by chance."""
        near = [candidate for base in bases for candidate in self._near(base)]
        rng = random.Random(f"{self._seed}:{self._readings + len(beside)}")
        drawn = (self._space.build(lambda q: rng.choice(q.values)) for _ in range(DRAWN))
        passed = {*self._told, *beside}
        return [one for one in dict.fromkeys([*near, *drawn]) if one not in passed]

    def _near(self, candidate: Candidate) -> tuple[Candidate, ...]:
        if candidate not in self._neighbours:
            self._neighbours[candidate] = tuple(neighbours(self._space, candidate))
        return self._neighbours[candidate]

    def _chance(self, candidate: Candidate) -> float:
        """By its least proven value: a value that has never failed counts as good.

        Squared, for a launch that fails often costs a time limit on top of telling nothing.
        """
        return min(
            (
                ((self._worked[value] + 1) / (self._worked[value] + failed + 1)) ** 2
                for value, failed in self._failed.items()
                if str(candidate.get(value[0])) == value[1]
            ),
            default=1.0,
        )


def _values(candidate: Candidate) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in candidate.items()]

"""What a candidate's speed is thought to be made of: effects of its knobs, large ones first."""

import math
from collections.abc import Hashable

from autotune.model import Candidate
from autotune.space.conditions import same
from autotune.space.knob import Effect
from autotune.space.space import Question, Space, default_of

DEVIATION = {Effect.LARGE: 0.3, Effect.MEDIUM: 0.06, Effect.SMALL: 0.02}
"""How far a value of such a knob may take log(samples/s) from the default's, one standard
deviation: what `effect` in the knobs' files stands for."""
INTERACTION = 0.5
"""Of a knob's effect, the part that may differ with the strategy."""
COMBINATION = 0.1
"""What large knobs may do together beyond what each does."""
OWN = 0.03
"""What a candidate has beyond the sum of its effects, which no sum can say."""
LEVEL: dict[Hashable, float] = {"level": 1.0}
"""What is not an effect: the baseline's own level about the first reading."""


def features(space: Space, candidate: Candidate) -> dict[Hashable, float]:
    """The effects in `candidate`, each with its prior standard deviation."""
    found: dict[Hashable, float] = {}
    strategy = candidate.get("strategy")
    large: list[Hashable] = []
    for question, value in space.questions(candidate):
        deviation = DEVIATION[question.knob.effect]
        steps = _steps(question, value)
        for step in steps:
            found[question.knob.name, *step] = deviation / _spread(question)
            if question.knob.effect is not Effect.LARGE:
                found[strategy, question.knob.name, *step] = (
                    INTERACTION * deviation / _spread(question)
                )
        if steps and question.knob.effect is Effect.LARGE:
            large.append((question.knob.name, str(value)))
    if len(large) > 1:
        found[("together", *large)] = COMBINATION
    return found


def own(candidate: Candidate) -> dict[Hashable, float]:
    """What a candidate has for itself alone."""
    return {("own", candidate): OWN}


def _steps(question: Question, value: object) -> list[tuple[str, ...]]:
    """From the default to `value`: one step for each neighbour passed, else one in all."""
    default = default_of(question.knob, question.values)
    if same(value, default):
        return []
    if not question.knob.ordered:
        return [(str(value),)]
    values = question.values
    start, end = (next(i for i, v in enumerate(values) if same(v, x)) for x in (default, value))
    low, high = sorted((start, end))
    way = "up" if end > start else "down"
    return [(way, str(values[i]), str(values[i + 1])) for i in range(low, high)]


def _spread(question: Question) -> float:
    """What divides a knob's deviation over its steps, so that half of them make it up."""
    return math.sqrt(max(1.0, (len(question.values) - 1) / 2)) if question.knob.ordered else 1.0

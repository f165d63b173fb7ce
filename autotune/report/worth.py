"""What each knob was worth, with error bars; and where the trials can't tell, that they can't."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from autotune.model import Candidate
from autotune.report.model import EffectModel, Estimate
from autotune.report.readings import Readings
from autotune.report.terms import Term, Value
from autotune.scoring.distributions import t_quantile

CONFIDENCE = 0.95
LITTLE = 0.01
"""Relative: what lies within this on both sides counts as no difference."""
_TOLD = 0.5
"""Of the prior's deviation: if more is left, the trials said less than the assumption did."""


class Finding(StrEnum):
    """What the trials say of an effect."""

    FASTER = "faster"
    SLOWER = "slower"
    LITTLE = "no difference"
    UNKNOWN = "not known"


@dataclass(frozen=True, kw_only=True)
class Span:
    """A relative effect on samples/s with its interval; 0.1 is 10 % faster."""

    estimate: float
    low: float
    high: float
    finding: Finding


@dataclass(frozen=True, kw_only=True)
class ValueWorth:
    """What a value did beside the baseline's, all else as in the baseline."""

    value: str
    instead_of: str
    candidates: int
    """That had it."""
    effect: Span


@dataclass(frozen=True, kw_only=True)
class KnobWorth:
    """A knob's importance: how much faster its best tried value is than its worst.

    One for each value that others are seen beside, which may differ with the strategy.
    """

    knob: str
    best: str
    worst: str
    importance: Span
    values: tuple[ValueWorth, ...]


@dataclass(frozen=True, kw_only=True)
class PairWorth:
    """What two values did together beyond what each does alone."""

    one: str
    other: str
    candidates: int
    """That had both."""
    effect: Span


@dataclass(frozen=True, kw_only=True)
class Worth:
    """What all knobs were worth."""

    readings: int
    candidates: int
    launch_noise: float
    """Relative standard deviation from launch to launch."""
    confidence: float
    knobs: tuple[KnobWorth, ...]
    """The most important first, those that aren't known last."""
    pairs: tuple[PairWorth, ...]
    """The same for pairs that more than one candidate had."""


def worth(found: Readings, baseline: Candidate | None) -> Worth | None:
    """What the readings say of the knobs; None if nothing but the baseline was measured."""
    if baseline is None or not any(p.candidate != baseline for p in found.points):
        return None
    model = EffectModel(found.points, baseline)
    quantile = t_quantile(found.noise.freedom, (1 + CONFIDENCE) / 2)
    return Worth(
        readings=len(found.points),
        candidates=len(model.candidates),
        launch_noise=found.noise.launch,
        confidence=CONFIDENCE,
        knobs=_knobs(model, quantile),
        pairs=_pairs(model, quantile),
    )


def span(estimate: Estimate, quantile: float) -> Span:
    """The interval that reaches `quantile` deviations to both sides, and what it says."""
    margin = quantile * estimate.deviation
    low, high = (math.expm1(estimate.mean + side * margin) for side in (-1, 1))
    finding = _finding(estimate, low, high)
    return Span(estimate=math.expm1(estimate.mean), low=low, high=high, finding=finding)


def _finding(estimate: Estimate, low: float, high: float) -> Finding:
    if low > 0:
        return Finding.FASTER
    if high < 0:
        return Finding.SLOWER
    is_told = estimate.deviation < _TOLD * estimate.before
    return Finding.LITTLE if is_told and max(-low, high) < LITTLE else Finding.UNKNOWN


def _knobs(model: EffectModel, quantile: float) -> tuple[KnobWorth, ...]:
    by_knob: dict[tuple[str, str], list[Term]] = {}
    for term in model.values:
        by_knob.setdefault((term[0].knob, term[0].instead_of), []).append(term)
    found = [_knob(model, terms, quantile) for terms in by_knob.values()]
    return tuple(sorted(found, key=lambda knob: _rank(knob.importance)))


def _knob(model: EffectModel, terms: Sequence[Term], quantile: float) -> KnobWorth:
    estimates = {term: model.effect(term) for term in terms}
    means = {term: estimate.mean for term, estimate in estimates.items()}
    reference: Term = ()
    ends = means | {reference: 0.0}
    best, worst = max(ends, key=lambda t: ends[t]), min(ends, key=lambda t: ends[t])
    weights = {term: sign for term, sign in ((best, 1.0), (worst, -1.0)) if term}
    names = {reference: terms[0][0].instead_of} | {t: _text(t[0]) for t in terms}
    return KnobWorth(
        knob=terms[0][0].knob,
        best=names[best],
        worst=names[worst],
        importance=span(model.contrast(weights), quantile),
        values=tuple(
            ValueWorth(
                value=names[term],
                instead_of=term[0].instead_of,
                candidates=len(model.values[term]),
                effect=span(estimates[term], quantile),
            )
            for term in sorted(terms, key=lambda t: -means[t])
        ),
    )


def _pairs(model: EffectModel, quantile: float) -> tuple[PairWorth, ...]:
    found = [
        PairWorth(
            one=str(pair[0]),
            other=str(pair[1]),
            candidates=len(holders),
            effect=span(model.effect(pair), quantile),
        )
        for pair, holders in model.pairs.items()
    ]
    return tuple(sorted(found, key=lambda pair: _rank(pair.effect)))


def _rank(span: Span) -> tuple[bool, float]:
    return (span.finding is Finding.UNKNOWN, -abs(span.estimate))


def _text(value: Value) -> str:
    return str(value).partition("=")[2]

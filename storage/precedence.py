"""Which of two answers for one target stays: the rule that `Store.save_best` states."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.model import BestConfiguration, Conclusion, StudySpec


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A configuration, and how much its study looked at."""

    best: BestConfiguration
    spec: StudySpec | None
    """None if the store doesn't have the study; then nothing is known against it."""
    tried: int
    """Launches of its search, without baseline and confirmation."""


def may_replace(new: Answer, old: Answer) -> bool:
    """Whether `new` takes the place of `old` for the target that they share."""
    if new.best.run_id == old.best.run_id:
        return True
    if Conclusion.UNCONFIRMED in (new.best.conclusion, old.best.conclusion):
        return old.best.conclusion is Conclusion.UNCONFIRMED
    if _looked_at_as_much(new, old):
        return True
    return new.best.conclusion is Conclusion.IMPROVED and (
        new.best.versions != old.best.versions or _rate(new.best) > _rate(old.best)
    )


def _looked_at_as_much(new: Answer, old: Answer) -> bool:
    # Half: with a time budget the same command never tries the same number twice.
    if 2 * new.tried < old.tried:
        return False
    if new.spec is None or old.spec is None:
        return True
    return (
        _is_part(new.spec.pinned, old.spec.pinned)
        and _is_part(new.spec.environment, old.spec.environment)
        and _searched_knobs(new.spec, old.spec)
    )


def _searched_knobs(new: StudySpec, old: StudySpec) -> bool:
    """Whether every knob that `old` was to search was open to `new` too."""
    if new.only:
        return bool(old.only) and set(old.only) <= set(new.only)
    if old.only:
        return True
    if old.space_text:
        return new.space_text == old.space_text
    return new.space == old.space or old.space != "full"


def _is_part(part: Mapping[str, object], whole: Mapping[str, object]) -> bool:
    # As JSON: True isn't 1.
    return all(json.dumps(value) == json.dumps(whole.get(name)) for name, value in part.items())


def _rate(best: BestConfiguration) -> float:
    """Samples/s of what the answer says to use."""
    reading = best.evidence.winner or best.evidence.baseline
    return reading.samples_per_second if reading else 0.0

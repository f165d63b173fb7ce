"""Which knobs did nothing, by what trials read back: such a candidate is another in disguise."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.model import Candidate, KnobValue, Trial, encode
from autotune.space.knob import TargetKind
from autotune.space.space import Space

_IDLE = ("not seen", "refused", "overridden")
"""What became of a variable that had no effect, as the trainers say it."""
_UNREAD = "was not seen"
_ANY = "*"
"""In place of a value: all of them."""
_Key = tuple[str, str, str]


@dataclass(kw_only=True)
class Idle:
    """Knob values that were seen to have no effect, by strategy: elsewhere they may have one."""

    space: Space
    reasons: dict[_Key, str] = field(default_factory=dict)

    def learn(self, trial: Trial, idle: Mapping[str, str]) -> bool:
        """Take in what `without_effect` says of a trial; whether that is news."""
        known = len(self.reasons)
        for name, reason in idle.items():
            # A variable that nobody looks for does nothing whatever its value.
            is_unread = all(part.endswith(_UNREAD) for part in reason.split(", "))
            key = _key(trial.candidate, name)
            self.reasons[(*key[:2], _ANY) if is_unread else key] = reason
        return len(self.reasons) > known

    def of(self, candidate: Candidate) -> dict[str, str]:
        """The knobs of `candidate` that would do nothing, each with the reason."""
        found: dict[str, str] = {}
        for name, value in candidate.items() if self.reasons else ():
            key = _key(candidate, name)
            reason = self.reasons.get(key) or self.reasons.get((*key[:2], _ANY))
            default = self.space.knob(name).default
            if reason and json.dumps(value) != json.dumps(default):
                found[name] = reason
        return found

    def summary(self) -> dict[str, str]:
        """Everything that did nothing, as `knob` or `knob=value`, to the reason."""
        return {
            name
            + (f"={_text(json.loads(value))}" if value != _ANY else "")
            + (f" under {strategy}" if strategy else ""): reason
            for (strategy, name, value), reason in self.reasons.items()
        }

    def reduced(self, candidate: Candidate) -> Candidate:
        """`candidate` with these knobs left alone: what it really is."""
        idle = self.of(candidate)
        defaults = {name: self.space.knob(name).default for name in idle}
        return Candidate(
            {n: v if (d := defaults.get(n)) is None else d for n, v in candidate.items()}
        )


class EffectLog:
    """What the trials of one study show together; each is looked at once."""

    def __init__(self, space: Space) -> None:
        self.idle = Idle(space=space)
        self._measured: dict[Candidate, Trial] = {}
        """The first trial of each candidate."""
        self._plain: dict[Candidate, Trial] = {}
        """The same by what the candidates really are."""

    def add(self, trial: Trial) -> None:
        """Take in the next trial; what says nothing of its candidate is passed over."""
        if not trial.outcome.is_final:
            return
        self._measured.setdefault(trial.candidate, trial)
        if self.idle.learn(trial, without_effect(trial, self.idle.space)):
            self._plain = {}
            for known in self._measured.values():
                self._plain.setdefault(self.idle.reduced(known.candidate), known)
        else:
            self._plain.setdefault(self.idle.reduced(trial.candidate), trial)

    def twin(self, candidate: Candidate) -> Trial | None:
        """A trial of what `candidate` really is, if knobs of it do nothing."""
        plain = self.idle.reduced(candidate)
        return None if plain == candidate else self._plain.get(plain)


def without_effect(trial: Trial, space: Space) -> dict[str, str]:
    """The knobs of a completed trial that did nothing, each with what was seen in their place.

    What isn't read back at all counts as having an effect.
    """
    measurement = trial.scored
    if measurement is None:
        return {}
    found: dict[str, str] = {}
    for name, value in trial.candidate.items():
        default = space.knob(name).default
        if default is None or json.dumps(value) == json.dumps(default):
            continue
        knob = space.knob(name)
        if knob.sets.kind is TargetKind.ARGUMENT:
            reason = _idle_setting(trial, knob.sets.name)
        else:
            plain = Candidate({**trial.candidate, name: default})
            reason = _idle_variables(trial, space.environment(plain))
        if reason:
            found[name] = reason
    return found


def _idle_variables(trial: Trial, without: Mapping[str, str]) -> str:
    """Why none of a knob's variables did anything; empty if one did.

    `without` is the environment that the trial would have had without the knob.
    """
    own = [name for name, value in trial.environment.items() if without.get(name) != value]
    effective = trial.measurement.effective if trial.measurement else {}
    states = {name: str(effective.get(f"uptake.{name}", "")) for name in own}
    if not states or not all(state in _IDLE for state in states.values()):
        return ""
    return ", ".join(f"{name} was {state}" for name, state in states.items())


def _idle_setting(trial: Trial, name: str) -> str:
    """Why the setting `name` isn't in effect; empty if it is, or isn't read back."""
    effective = trial.measurement.effective if trial.measurement else {}
    asked = encode(trial.settings)[name]
    if name not in effective or json.dumps(effective[name]) == json.dumps(asked):
        return ""
    return f"{name} was {_text(effective[name])} in effect"


def _key(candidate: Candidate, name: str) -> _Key:
    return (str(candidate.get("strategy", "")), name, json.dumps(candidate[name]))


def _text(value: KnobValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

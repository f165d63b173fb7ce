"""A knob: one thing that can be set, with its values and the conditions under which it exists."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from autotune.errors import FieldError
from autotune.model import KnobValue


class Effect(StrEnum):
    """How much a knob is expected to matter; a search tries large ones first."""

    LARGE = "large"
    MEDIUM = "medium"
    SMALL = "small"


class TargetKind(StrEnum):
    """What a knob's value becomes."""

    ARGUMENT = "argument"
    """A field of TrainingSettings."""
    ENVIRONMENT = "environment"
    """An environment variable of the ranks."""
    LOGICAL = "logical"
    """One or more environment variables that depend on the library's version."""


@dataclass(frozen=True, kw_only=True)
class Sets:
    """What a knob sets: its kind, and the name of the argument, variable or rule."""

    kind: TargetKind
    name: str


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One value of a knob. `when` is the condition under which the value exists."""

    value: KnobValue
    when: Mapping[str, KnobValue | tuple[KnobValue, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Knob:
    """One thing that can be set, as read from search_spaces/*.yaml."""

    name: str
    help: str
    sets: Sets
    effect: Effect
    choices: tuple[Choice, ...] = ()
    """In their natural order. Empty if `rule` computes them."""
    rule: str = ""
    """Name of a function in `rules` that computes the choices from the facts."""
    default: KnobValue | None = None
    """The framework's own behaviour; None is the first choice that exists."""
    ordered: bool = False
    """Whether neighbouring choices are alike, so that a search may interpolate."""
    minimum: int | None = None
    maximum: int | None = None
    """With both, a person may pin any whole number between them, listed or not."""
    unit: str = ""
    when: Mapping[str, KnobValue | tuple[KnobValue, ...]] = field(default_factory=dict)
    source: str = ""
    """Where the facts come from."""

    def parse(self, text: str) -> KnobValue:
        """The value that a person wrote as `text`. Raises FieldError with what is allowed."""
        for choice in self.choices:
            if text.lower() == str(choice.value).lower():
                return choice.value
        if not self.choices and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if text.lstrip("-").isdigit():
            return self._parse_number(text)
        raise self._unknown(text)

    def _parse_number(self, text: str) -> int:
        number = int(text)
        if self.minimum is not None and self.maximum is not None:
            if self.minimum <= number <= self.maximum:
                return number
            bounds = f"{self.minimum} to {self.maximum} {self.unit}".rstrip()
            raise FieldError(self.name, text, f"is outside {bounds}")
        if not self.choices:
            return number
        raise self._unknown(text)

    def _unknown(self, text: str) -> FieldError:
        listed = [str(choice.value).lower() for choice in self.choices]
        if self.minimum is not None:
            listed.append(f"a whole number from {self.minimum} to {self.maximum}")
        return FieldError(self.name, text, "is not a value of this knob", alternatives=listed)

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


class Searched(StrEnum):
    """In which space a knob is searched; elsewhere it keeps its default."""

    DEFAULT = "default"
    """In every space."""
    FULL = "full"
    """In the full one."""


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
    lossy: bool = False
    """It changes numerics, and is left out unless a person allows that."""


@dataclass(frozen=True, kw_only=True)
class Knob:
    """One thing that can be set, as read from search_spaces/*.yaml."""

    name: str
    help: str
    sets: Sets
    effect: Effect
    searched: Searched = Searched.DEFAULT
    choices: tuple[Choice, ...] = ()
    """In their natural order. Without them `rule` computes the values."""
    rule: str = ""
    """Name of a rule in `rules` that judges values by machine, version and earlier knobs."""
    default: KnobValue | None = None
    """The framework's own behaviour; None is the first choice that exists."""
    default_means: KnobValue | None = None
    """What the value `default` comes to where no plugin presets something else, if known."""
    ordered: bool = False
    """Whether neighbouring choices are alike, so that a search may interpolate."""
    minimum: int | None = None
    maximum: int | None = None
    """With both, a person may pin any whole number between them, listed or not."""
    unit: str = ""
    when: Mapping[str, KnobValue | tuple[KnobValue, ...]] = field(default_factory=dict)
    touches: tuple[str, ...] = ()
    """Collectives, algorithms, protocols and transports that it affects; empty is all of them."""
    variables: tuple[str, ...] = ()
    """Logical knobs only: every variable that decides on the same thing."""
    source: str = ""
    """Where the facts come from."""

    @property
    def all_variables(self) -> tuple[str, ...]:
        """The environment variables that would decide in this knob's place."""
        return (self.sets.name,) if self.sets.kind is TargetKind.ENVIRONMENT else self.variables

    def choice(self, value: KnobValue) -> Choice | None:
        """The listed choice of `value`; True and 1 are different values."""
        for choice in self.choices:
            if choice.value == value and isinstance(choice.value, bool) == isinstance(value, bool):
                return choice
        return None

    def in_range(self, value: object) -> bool:
        """Whether `value` is a number that may be pinned though it isn't listed."""
        if self.minimum is None or self.maximum is None or isinstance(value, bool):
            return False
        return isinstance(value, int) and self.minimum <= value <= self.maximum

    def parse(self, text: str) -> KnobValue:
        """The value that a person wrote as `text`. Raises FieldError with what is allowed."""
        for choice in self.choices:
            if _plain(text) == _plain(str(choice.value)):
                return choice.value
        if self.default is not None and text.lower() == str(self.default).lower():
            return self.default
        if not self.choices and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if text.lstrip("-").isdecimal():
            return self._parse_number(text)
        raise self._unknown(text)

    def _parse_number(self, text: str) -> int:
        number = int(text)
        if self.minimum is not None and self.maximum is not None:
            if self.in_range(number):
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


def _plain(text: str) -> str:
    """NCCL writes NVLSTree where we write nvls_tree."""
    return text.lower().replace("_", "")

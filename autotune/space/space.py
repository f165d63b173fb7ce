"""A space: the knobs that exist for one target, and the candidates they make."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.errors import FieldError
from autotune.model import DEFAULT, Candidate, KnobValue, TrainingSettings, decode
from autotune.space.conditions import unmet
from autotune.space.facts import Facts
from autotune.space.knob import Knob, TargetKind
from autotune.space.logical import LOGICAL
from autotune.space.options import options, same, situations


@dataclass(frozen=True, kw_only=True)
class Question:
    """A knob's value is asked for; `values` are those that exist with what was chosen before."""

    knob: Knob
    values: tuple[KnobValue, ...]

    @property
    def name(self) -> str:
        """Unique for the knob and its values, which may depend on the knobs before."""
        return f"{self.knob.name}[{','.join(map(str, self.values))}]"


Choose = Callable[[Question], KnobValue]


@dataclass(frozen=True, kw_only=True)
class KnobView:
    """What is possible for a knob in a space, for a person to read."""

    knob: Knob
    values: tuple[KnobValue, ...]
    """Those that exist in some candidate."""
    left_out: Mapping[KnobValue, str]
    """Those that don't, each with the reason."""
    reason: str
    """Why the knob doesn't exist here at all; empty if it does."""
    searched: bool


class Space:
    """Every candidate for one target: a tree, walked knob by knob in the catalogue's order.

    `pinned` knobs have one value wherever they exist. With `only`, the other knobs keep their
    defaults. Raises FieldError for names, values and batches that leave no candidate.
    """

    def __init__(
        self,
        knobs: Sequence[Knob],
        facts: Facts,
        *,
        pinned: Mapping[str, KnobValue] | None = None,
        only: Sequence[str] = (),
    ) -> None:
        self.knobs = tuple(knobs)
        self.facts = facts
        self.pinned = dict(pinned or {})
        self.only = tuple(only)
        self._check_batch()
        self._check_names()
        self._check_pinned()

    def build(self, choose: Choose) -> Candidate:
        """The candidate whose free knobs have the values that `choose` returns."""
        values: dict[str, KnobValue] = {}
        for knob in self.knobs:
            possible = options(knob, values, self.facts, self.pinned)
            if not possible:
                continue
            is_free = len(possible) > 1 and self._is_searched(knob)
            question = Question(knob=knob, values=possible)
            values[knob.name] = choose(question) if is_free else self._fixed(knob, possible)
        return Candidate(values)

    def baseline(self) -> Candidate:
        """The framework's own defaults, with the pinned values."""
        return self.build(lambda question: self._fixed(question.knob, question.values))

    def questions(self, candidate: Candidate) -> list[tuple[Question, KnobValue]]:
        """The questions that lead to `candidate`, each with its answer.

        Raises FieldError if no answers lead there, so that it belongs to another space.
        """
        answers: list[tuple[Question, KnobValue]] = []

        def choose(question: Question) -> KnobValue:
            value = candidate.get(question.knob.name)
            if value is None or not any(same(value, known) for known in question.values):
                raise FieldError(
                    question.knob.name, value, "is not in this space", alternatives=question.values
                )
            answers.append((question, value))
            return value

        if self.build(choose) != candidate:
            raise FieldError("candidate", dict(candidate), "is not in this space")
        return answers

    def candidates(self) -> Iterator[Candidate]:
        """All candidates, the baseline's values first in each knob."""
        yield from self._expand([])

    def _expand(self, answers: list[KnobValue]) -> Iterator[Candidate]:
        given = iter(answers)
        pending: list[Question] = []

        def choose(question: Question) -> KnobValue:
            value = next(given, None)
            if value is None:
                pending.append(question)
                return self._fixed(question.knob, question.values)
            return value

        candidate = self.build(choose)
        if not pending:
            yield candidate
            return
        first = pending[0]
        default = self._fixed(first.knob, first.values)
        for value in sorted(first.values, key=lambda value: value != default):
            yield from self._expand([*answers, value])

    def settings(self, candidate: Candidate) -> TrainingSettings:
        """What `candidate` asks of the trainer."""
        arguments: dict[str, Any] = {
            knob.sets.name: candidate[knob.name]
            for knob in self._set_in(candidate, TargetKind.ARGUMENT)
        }
        steps = arguments.get("accumulation_steps", 1)
        arguments["micro_batch"] = self.facts.global_batch // self.facts.ranks // steps
        return decode(TrainingSettings, arguments)

    def environment(self, candidate: Candidate) -> dict[str, str]:
        """The variables that `candidate` asks for."""
        variables: dict[str, str] = {}
        for knob in self._set_in(candidate, TargetKind.ENVIRONMENT):
            variables[knob.sets.name] = str(candidate[knob.name])
        for knob in self._set_in(candidate, TargetKind.LOGICAL):
            variables |= LOGICAL[knob.sets.name](candidate[knob.name], self.facts)
        return variables

    def _set_in(self, candidate: Candidate, kind: TargetKind) -> list[Knob]:
        return [
            knob
            for knob in self.knobs
            if knob.sets.kind is kind and candidate.get(knob.name, DEFAULT) != DEFAULT
        ]

    def _is_searched(self, knob: Knob) -> bool:
        return knob.name not in self.pinned and (not self.only or knob.name in self.only)

    def _fixed(self, knob: Knob, possible: tuple[KnobValue, ...]) -> KnobValue:
        if knob.name in self.pinned:
            return self.pinned[knob.name]
        return next((value for value in possible if same(value, knob.default)), possible[0])

    def _check_batch(self) -> None:
        batch, ranks = self.facts.global_batch, self.facts.ranks
        if batch < 1 or batch % ranks:
            near = sorted({max(ranks, batch // ranks * ranks), (batch // ranks + 1) * ranks})
            raise FieldError(
                "--global-batch",
                batch,
                f"has to be a multiple of the {ranks} data-parallel ranks, so that each gets whole "
                "samples",
                alternatives=near,
            )

    def _check_names(self) -> None:
        names = [knob.name for knob in self.knobs]
        for flag, given in (("--set", self.pinned), ("--only", self.only)):
            for name in given:
                if name not in names:
                    raise FieldError(flag, name, "is no knob", alternatives=names)

    def _check_pinned(self) -> None:
        """Every pinned value has to be possible in some candidate."""
        for name, value in self.pinned.items():
            view = self.view(self.knob(name), others_pinned=True)
            if view.reason:
                raise FieldError(f"--set {name}", value, f"has no effect here: it {view.reason}")
            in_range = view.knob.minimum is not None and isinstance(value, int)
            if not in_range and not any(same(value, option) for option in view.values):
                allowed = [str(option).lower() for option in view.values]
                why = next((r for v, r in view.left_out.items() if same(v, value)), "")
                rule = f"is left out here: it {why}" if why else "is not possible here"
                raise FieldError(f"--set {name}", value, rule, alternatives=allowed)

    def knob(self, name: str) -> Knob:
        """The knob called `name`, which exists."""
        return next(knob for knob in self.knobs if knob.name == name)

    def view(self, knob: Knob, *, others_pinned: bool = False) -> "KnobView":
        """What is possible for `knob` here, and why the rest is not.

        With `others_pinned` a pin of the knob itself is left aside.
        """
        pins = {n: v for n, v in self.pinned.items() if not (others_pinned and n == knob.name)}
        values: list[KnobValue] = []
        left_out: dict[KnobValue, str] = {}
        reason = ""
        is_open = False
        for before in situations(knob, self.knobs, self.facts, pins):
            reason = reason or unmet(knob.when, before, self.facts)
            possible = options(knob, before, self.facts, pins)
            is_open = is_open or len(possible) > 1
            for value in possible:
                if not any(same(value, known) for known in values):
                    values.append(value)
            for choice in knob.choices:
                left_out.setdefault(choice.value, unmet(choice.when, before, self.facts))
        return KnobView(
            knob=knob,
            values=tuple(values),
            left_out={v: why for v, why in left_out.items() if why and v not in values},
            reason="" if values else reason or "has no value that fits",
            searched=is_open and self._is_searched(knob),
        )

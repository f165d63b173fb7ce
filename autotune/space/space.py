"""A space: the knobs that exist for one target, and the candidates they make."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.errors import FieldError
from autotune.model import DEFAULT, Candidate, KnobValue, TrainingSettings, decode
from autotune.space.checks import check
from autotune.space.conditions import same, shown
from autotune.space.environment import held
from autotune.space.facts import Facts
from autotune.space.knob import Knob, Searched, TargetKind
from autotune.space.logical import LOGICAL
from autotune.space.memo import Memo
from autotune.space.options import Terms, options


@dataclass(frozen=True, kw_only=True)
class Question:
    """A knob's value is asked for; `values` are those that exist with what was chosen before."""

    knob: Knob
    values: tuple[KnobValue, ...]

    @property
    def name(self) -> str:
        """Unique for the knob and its values, which may depend on the knobs before."""
        return f"{self.knob.name}[{','.join(map(str, self.values))}]"


_MOST_REMEMBERED = 5000
"""Candidates whose questions are kept, some 10 MB."""

Choose = Callable[[Question], KnobValue]
Answer = tuple[Question, KnobValue]


class Space:
    """Every candidate for one target: a tree, walked knob by knob in the catalogue's order.

    `pinned` knobs have one value wherever they exist, those that the user's environment decides are
    left alone. With `only`, the other knobs keep their defaults; else `searched` says how many are
    searched. Raises FieldError for names, values and batches that leave no candidate.
    """

    def __init__(
        self,
        knobs: Sequence[Knob],
        facts: Facts,
        *,
        pinned: Mapping[str, KnobValue] | None = None,
        only: Sequence[str] = (),
        searched: Searched = Searched.DEFAULT,
        allow_lossy: bool = False,
    ) -> None:
        self.knobs = tuple(knobs)
        self._by_name = {knob.name: knob for knob in self.knobs}
        self._places = {knob.name: place for place, knob in enumerate(self.knobs)}
        self.facts = facts
        self.pinned = dict(pinned or {})
        self.only = tuple(only)
        self.searched = searched
        self.terms = Terms(
            pins=self.pinned, held=held(knobs, self.pinned, facts), allow_lossy=allow_lossy
        )
        self._options = {knob.name: Memo(self._worked_out(knob)) for knob in self.knobs}
        self._is_searched = {knob.name: self.is_searched(knob) for knob in self.knobs}
        self._answers: dict[Candidate, Sequence[Answer]] = {}
        """Of candidates built last: walking the knobs again is what a search would wait for."""
        check(self)

    def _worked_out(self, knob: Knob) -> Callable[[Mapping[str, KnobValue]], tuple[KnobValue, ...]]:
        return lambda values: options(knob, values, self.facts, self.terms)

    def build(self, choose: Choose) -> Candidate:
        """The candidate whose free knobs have the values that `choose` picks from theirs."""
        return self._walk(0, {}, [], choose)

    def varied(self, base: Candidate, name: str, value: KnobValue) -> Candidate:
        """`base` with another value of one knob, and what that makes impossible at its default."""
        place = self._places[name]
        values = {knob.name: base[knob.name] for knob in self.knobs[:place] if knob.name in base}
        answers = [(q, v) for q, v in self.questions(base) if self._places[q.knob.name] < place]

        def choose(question: Question) -> KnobValue:
            wanted = value if question.knob.name == name else base.get(question.knob.name)
            known = [v for v in question.values if wanted is not None and same(v, wanted)]
            return known[0] if known else default_of(question.knob, question.values)

        return self._walk(place, values, answers, choose)

    def _walk(
        self, place: int, values: dict[str, KnobValue], answers: list[Answer], choose: Choose
    ) -> Candidate:
        """From the knob at `place` on; `values` and `answers` are of those before."""
        for knob in self.knobs[place:]:
            possible = self._options[knob.name](values)
            if not possible:
                continue
            if len(possible) > 1 and self._is_searched[knob.name]:
                question = Question(knob=knob, values=possible)
                value = choose(question)
                answers.append((question, value))
            else:
                value = default_of(knob, possible)
            values[knob.name] = value
        candidate = Candidate(values)
        if len(self._answers) == _MOST_REMEMBERED:
            self._answers.clear()
        self._answers[candidate] = answers
        return candidate

    def baseline(self) -> Candidate:
        """The framework's own defaults, with the pinned values."""
        return self.build(lambda question: default_of(question.knob, question.values))

    def questions(self, candidate: Candidate) -> Sequence[Answer]:
        """The questions that lead to `candidate`, each with its answer.

        Raises FieldError if no answers lead there, so that it belongs to another space.
        """
        if candidate in self._answers:
            return self._answers[candidate]

        def choose(question: Question) -> KnobValue:
            value = candidate.get(question.knob.name)
            if value is None or not any(same(value, known) for known in question.values):
                raise FieldError(
                    question.knob.name, value, "is not in this space", alternatives=question.values
                )
            return value

        built = self.build(choose)
        if built != candidate:
            raise FieldError("candidate", dict(candidate), "is not in this space")
        return self._answers[built]

    def candidates(self) -> Iterator[Candidate]:
        """All candidates, made as they are asked for, the baseline's values first in each knob."""
        yield from self._expand([])

    def _expand(self, answers: list[KnobValue]) -> Iterator[Candidate]:
        given = iter(answers)
        pending: list[Question] = []

        def choose(question: Question) -> KnobValue:
            value = next(given, None)
            if value is None:
                pending.append(question)
                return default_of(question.knob, question.values)
            return value

        candidate = self.build(choose)
        if not pending:
            yield candidate
            return
        first = pending[0]
        default = default_of(first.knob, first.values)
        for value in sorted(first.values, key=lambda value: not same(value, default)):
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
        """The variables that `candidate` asks for, and those by which the user holds knobs."""
        held_names = set(self.terms.held.values())
        variables = {n: v for n, v in self.facts.environment.items() if n in held_names}
        for knob in self._set_in(candidate, TargetKind.ENVIRONMENT):
            variables[knob.sets.name] = shown(candidate[knob.name])
        for knob in self._set_in(candidate, TargetKind.LOGICAL):
            variables |= LOGICAL[knob.sets.name](candidate[knob.name], candidate, self.facts)
        return variables

    def _set_in(self, candidate: Candidate, kind: TargetKind) -> list[Knob]:
        return [
            knob
            for knob in self.knobs
            if knob.sets.kind is kind and candidate.get(knob.name, DEFAULT) != DEFAULT
        ]

    def is_searched(self, knob: Knob) -> bool:
        """Whether a search may choose among the values of `knob`, should it have several."""
        if knob.name in self.pinned:
            return False
        if self.only:
            return knob.name in self.only
        if knob.sets.name in self.facts.named:
            return True
        return self.searched is Searched.FULL or knob.searched is Searched.DEFAULT

    def knob(self, name: str) -> Knob:
        """The knob called `name`, which exists."""
        return self._by_name[name]


def default_of(knob: Knob, possible: Sequence[KnobValue]) -> KnobValue:
    """The framework's own behaviour among `possible`, which a pin leaves one value."""
    return next((value for value in possible if same(value, knob.default)), possible[0])

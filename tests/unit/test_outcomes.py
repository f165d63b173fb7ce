"""The table of outcomes, in the code and in the docs; test_loop_failures.py tests the loop."""

import re
from pathlib import Path

from autotune.diagnosis.catalogue import SIGNATURES
from autotune.model import TREATMENTS, Lesson, Outcome

PAGE = (Path(__file__).parents[2] / "docs" / "outcomes.md").read_text("utf-8")
LESSONS = {
    Lesson.SCORE: "its score",
    Lesson.LOST: "that it lost",
    Lesson.INFEASIBLE: "that it is infeasible",
    Lesson.NOTHING: "nothing",
}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under `heading`'s columns, without code marks."""
    _, _, rest = PAGE.partition(f"| {heading} |")
    table = re.split(r"\n(?!\|)", rest, maxsplit=1)[0]
    return [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in table.splitlines()[2:]
    ]


def test_the_docs_say_what_follows_from_each_outcome() -> None:
    said = {name: cells for name, _, *cells in rows("outcome")}
    assert said == {
        outcome.value: [
            f"{LESSONS[treatment.lesson]}{', at first' * treatment.gives_up}",
            str(treatment.retries or "-"),
            str(treatment.ends_study_after or "-"),
        ]
        for outcome, treatment in TREATMENTS.items()
    }


def test_every_outcome_has_a_treatment() -> None:
    assert set(TREATMENTS) == set(Outcome)
    for treatment in TREATMENTS.values():
        assert treatment.retries <= 2
        assert (treatment.retries > 0) <= (treatment.lesson is Lesson.NOTHING)
        assert bool(treatment.advice) == bool(treatment.ends_study_after)


def test_the_docs_list_every_signature() -> None:
    assert sorted(rows("signature")) == sorted(
        [one.name, one.outcome.value, one.cause] for one in SIGNATURES
    )

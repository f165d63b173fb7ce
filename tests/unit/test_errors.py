"""What messages suggest in place of a value that isn't known."""

import pytest

from autotune.errors import ABSENT, FieldError, closest
from autotune.space.instances import load_instances


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("p5.49xlarge", "p5.48xlarge"),
        ("p5.48xlage", "p5.48xlarge"),
        ("p5.4xlage", "p5.4xlarge"),
        ("p4d.24xlargee", "p4d.24xlarge"),
        ("P4D.24XLARGE", "p4d.24xlarge"),
        ("p4de.24xlarg", "p4de.24xlarge"),
        ("g5.12xlrage", "g5.12xlarge"),
        ("g6e", "g6e.xlarge"),
        ("cluster", ""),
        ("x", ""),
        ("", ""),
    ],
)
def test_the_fewest_edits_are_meant(text: str, meant: str) -> None:
    assert closest(text, load_instances()) == meant


def test_a_message_quotes_a_value_only_if_there_is_one() -> None:
    assert str(FieldError("a.b", None, "has to be text")) == "a.b: None has to be text"
    assert str(FieldError("a.b", ABSENT, "is required but missing")) == (
        "a.b: is required but missing"
    )


def test_a_long_list_is_left_out_beside_a_suggestion() -> None:
    many = [f"knob_{number:02}" for number in range(40)]
    assert str(FieldError("knob", "knop_17", "is unknown", alternatives=many)) == (
        "knob: 'knop_17' is unknown; did you mean 'knob_17'?"
    )
    assert "knob_39" in str(FieldError("knob", "zzz", "is unknown", alternatives=many))

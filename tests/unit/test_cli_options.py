"""Options that hold lists."""

import pytest

from autotune.cli.options import names
from autotune.errors import FieldError


def test_a_list_may_be_given_in_parts() -> None:
    assert names(["strategy, bucket_cap_mb", "compile"], "--only") == (
        "strategy", "bucket_cap_mb", "compile",
    )  # fmt: skip
    assert names(None, "--only") == ()


@pytest.mark.parametrize("part", ["", ",", " "])
def test_each_part_names_something(part: str) -> None:
    with pytest.raises(FieldError, match="names nothing"):
        names(["strategy", part], "--only")

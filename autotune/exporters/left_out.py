"""Comment lines on what an export has no place for."""

from collections.abc import Iterator, Sequence

from autotune.exporters.text import comment


def left_out_comment(left_out: Sequence[str]) -> Iterator[str]:
    """Nothing if nothing is left out."""
    if left_out:
        yield comment("Not in this file, which has no place for it; without it the speed may be")
        yield comment("another than was measured:")
        yield from (comment(f"- {one}") for one in left_out)

"""Python source for exports: literals that mean the same in every version."""

from collections.abc import Iterator, Mapping


def assignment(name: str, variables: Mapping[str, str]) -> Iterator[str]:
    """`name = {...}` with one line for each variable."""
    yield f"{name} = {{"
    yield from (f"    {key!a}: {value!a}," for key, value in variables.items())
    yield "}"

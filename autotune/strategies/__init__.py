"""Ways to search a space."""

from autotune.errors import FieldError
from autotune.space.space import Space
from autotune.strategies.base import SearchStrategy
from autotune.strategies.staged import StagedStrategy

NAMES = ("staged", "tpe")


def build_strategy(name: str, space: Space, seed: int) -> SearchStrategy:
    """The strategy called `name`. Raises FieldError for an unknown one."""
    if name == "staged":
        return StagedStrategy(space, seed)
    if name == "tpe":
        from autotune.strategies.tpe import TpeStrategy  # noqa: PLC0415 - optuna takes a second

        return TpeStrategy(space, seed)
    raise FieldError("search", name, "is no search strategy", alternatives=NAMES)


__all__ = ["NAMES", "SearchStrategy", "build_strategy"]

"""Ways to search a space."""

from autotune.errors import FieldError
from autotune.space.space import Space
from autotune.strategies.base import SearchStrategy

NAMES = ("staged", "tpe", "gp", "random", "grid")


def check_strategy(name: str) -> None:
    """Raises FieldError if no strategy is called `name`."""
    if name not in NAMES:
        raise FieldError("--strategy", name, "is no search strategy", alternatives=NAMES)


def build_strategy(name: str, space: Space, seed: int) -> SearchStrategy:
    """The strategy called `name`. Raises FieldError for an unknown one."""
    check_strategy(name)
    # Each is imported only when it is used: optuna takes a second, scipy a third of one.
    match name:
        case "staged":
            from autotune.strategies.staged import StagedStrategy  # noqa: PLC0415

            return StagedStrategy(space, seed)
        case "random":
            from autotune.strategies.random_search import RandomStrategy  # noqa: PLC0415

            return RandomStrategy(space, seed)
        case "grid":
            from autotune.strategies.grid import GridStrategy  # noqa: PLC0415

            return GridStrategy(space)
        case "gp":
            from autotune.strategies.gp import GpStrategy  # noqa: PLC0415

            return GpStrategy(space, seed)
        case _:
            from autotune.strategies.tpe import TpeStrategy  # noqa: PLC0415

            return TpeStrategy(space, seed)


__all__ = ["NAMES", "SearchStrategy", "build_strategy", "check_strategy"]

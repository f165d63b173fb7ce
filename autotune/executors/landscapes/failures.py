"""Which trials fail, and how."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from autotune.errors import FieldError
from autotune.executors.landscapes.chance import generator
from autotune.executors.landscapes.layout import Layout, check_condition, key
from autotune.model import Outcome
from autotune.space.conditions import Condition, all_hold

_NO_FAILURES = (Outcome.COMPLETED, Outcome.PRUNED, Outcome.CANCELLED)


class Each(StrEnum):
    """What chance decides on."""

    LAUNCH = "launch"
    """Every launch by itself: the next one of the same candidate may work."""
    CANDIDATE = "candidate"
    """Every candidate once: all its launches fail, or none."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Trials that end badly: a share of those that `when` fits."""

    outcome: Outcome
    percent: float = 100.0
    """How many of them."""
    each: Each = Each.LAUNCH
    when: Condition = field(default_factory=dict)
    after_windows: int = 0
    """Windows that close before."""

    def __post_init__(self) -> None:
        check_condition(self.when)
        if self.outcome in _NO_FAILURES:
            kinds = [kind for kind in Outcome if kind not in _NO_FAILURES]
            raise FieldError("outcome", self.outcome.value, "is no failure", alternatives=kinds)
        if not 0 <= self.percent <= 100:
            raise FieldError("percent", self.percent, "has to be from 0 to 100")
        if self.after_windows < 0:
            raise FieldError("after_windows", self.after_windows, "has to be 0 or more")


def drawn(
    failures: Sequence[Failure], layout: Layout, *, landscape_seed: int, launch: str
) -> Failure | None:
    """The first failure that meets the launch called `launch`; None if it goes well."""
    for index, failure in enumerate(failures):
        name = launch if failure.each is Each.LAUNCH else key(layout)
        chance = generator(landscape_seed, "failure", index, name).uniform(0, 100)
        if chance < failure.percent and all_hold(failure.when, layout):
            return failure
    return None

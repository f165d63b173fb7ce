"""How long a job may run, and what that costs. Pure."""

from dataclasses import dataclass

from autotune.errors import FieldError
from autotune.space.instances import Price

STARTING_S = 900
"""Beyond the study's own time: what is missing is installed, Ray starts, results are written."""
LEAST_STARTING_S = STARTING_S * 2 // 3
"""Of it, what a job has to have: less is used up before its first trial and after its last."""
WITHOUT_BUDGET_S = 24 * 3600
"""The end of a job whose study has a number of trials and no time."""
SPOT_WAIT_S = 3 * 3600
"""For capacity, at the start and after each interruption."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The limits of a job, and the estimate of what it takes."""

    budget_s: float | None
    """Of the study; None if only its trials are limited."""
    max_runtime_s: int
    nodes: int
    price: Price | None
    max_usd: float | None = None
    is_spot: bool = False

    @property
    def usd_per_hour(self) -> float | None:
        """Of all nodes, on demand."""
        return None if self.price is None else self.price.usd_per_hour * self.nodes

    @property
    def max_wait_s(self) -> int | None:
        return self.max_runtime_s + SPOT_WAIT_S if self.is_spot else None

    def describe(self) -> str:
        """The estimate and the hard stop, in a line."""
        stop = f"it is ended after {_time(self.max_runtime_s)}"
        if self.price is None or self.usd_per_hour is None:
            return f"cost: the catalogue has no price for this instance; {stop}"
        by = (
            f"{self.nodes} x {self.price.usd_per_hour:.2f} USD an hour on demand on EC2 as of "
            f"{self.price.as_of}, SageMaker's own price is another one"
        )
        if self.is_spot:
            by += "; spot costs less, at a price of the moment"
        most = self.max_runtime_s * self.usd_per_hour / 3600
        if self.budget_s is None:
            return f"cost: at most {most:.2f} USD ({by}); {stop}"
        usd = self.budget_s * self.usd_per_hour / 3600
        return (
            f"cost: about {usd:.2f} USD for the study's {_time(self.budget_s)} ({by}), "
            f"at most {most:.2f} USD; {stop}"
        )


def cost_of(
    *,
    budget_s: float | None,
    nodes: int,
    price: Price | None,
    max_usd: float | None,
    is_spot: bool,
    spent_usd: float = 0.0,
) -> Cost:
    """The limits that follow from a budget and the most it may cost, less what is spent already.

    Raises FieldError if the money doesn't last for the study's time.
    """
    wanted_s = WITHOUT_BUDGET_S if budget_s is None else round(budget_s) + STARTING_S
    if max_usd is not None:
        if price is None:
            raise FieldError(
                "--max-cost", f"{max_usd:g}usd", "needs a price, and the catalogue has none",
                hint="add the instance with its price to a file for --instances",
            )  # fmt: skip
        left_usd = max_usd - spent_usd
        affordable_s = int(3600 * left_usd / (price.usd_per_hour * nodes))
        if affordable_s < min(wanted_s, (budget_s or 0) + LEAST_STARTING_S):
            spent = f", of which {spent_usd:.2f} are spent," if spent_usd else ""
            raise FieldError(
                "--max-cost",
                f"{max_usd:g}usd",
                f"{spent} pays for {_time(max(affordable_s, 0))} of {nodes} x "
                f"{price.usd_per_hour:.2f} USD an hour, and the study takes "
                f"{_time(budget_s or STARTING_S)} and some minutes to start".lstrip(", "),
                hint="give it more, or less --budget",
            )
        wanted_s = min(wanted_s, affordable_s)
    return Cost(
        budget_s=budget_s, max_runtime_s=wanted_s, nodes=nodes, price=price, max_usd=max_usd,
        is_spot=is_spot,
    )  # fmt: skip


def _time(seconds: float) -> str:
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"

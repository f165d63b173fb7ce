"""What a study may take: time, or money by the price of the machine."""

import re
from dataclasses import dataclass

from autotune.errors import FieldError, UserError
from autotune.loop.plan import BASELINE_LAUNCHES
from autotune.loop.study import SEARCH_WINDOW_S
from autotune.machines import Place
from autotune.model import DeviceKind, MeasurementPlan
from autotune.scoring.design import MIN_ROUNDS

FIELD = "--budget"
DEFAULT_BUDGET_S = 600.0
_BUDGET = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|usd)?")
_UNIT_S = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_START_S = {DeviceKind.CPU: 0.5, DeviceKind.CUDA: 6.0}
"""Seconds of a launch that are not windows: ranks, building, warm-up. On CPU it was measured with
two ranks and the smallest workload; CUDA's contexts and NCCL take longer."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """As a person gave it; one of the two is None."""

    seconds: float | None = None
    usd: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """From 90s, 30m, 2h or 20usd. Raises FieldError for anything else."""
        match = _BUDGET.fullmatch(text.strip().lower())
        amount = float(match[1]) if match else 0.0
        if match is None or amount <= 0:
            rule = "has to be a duration or a sum above 0, such as 90s, 30m, 2h or 20usd"
            raise FieldError(FIELD, text, rule)
        if match[2] == "usd":
            return cls(usd=amount)
        return cls(seconds=amount * _UNIT_S[match[2]])

    def in_seconds(self, place: Place, nodes: int) -> float | None:
        """Wall time that it comes to. Raises UserError if there is no price to divide by."""
        if self.usd is None:
            return self.seconds
        price = place.instance.price if place.instance else None
        if price is None:
            raise UserError(
                f"{FIELD}: the catalogue has no price for {place.machine.instance}, so "
                f"{self.usd:g} USD can't be turned into time",
                hint="give the time, such as --budget 30m, or add the instance with its price to "
                "a file for --instances",
            )
        return 3600.0 * self.usd / (price.usd_per_hour * nodes)

    def describe(self, place: Place, nodes: int) -> str:
        """How a sum was turned into time; empty for a duration."""
        price = place.instance.price if place.instance else None
        if self.usd is None or price is None:
            return ""
        minutes = 60 * self.usd / (price.usd_per_hour * nodes)
        return (
            f"{self.usd:g} USD are {minutes:.0f} minutes: {nodes} x {price.usd_per_hour:.2f} USD "
            f"an hour on demand, as of {price.as_of}"
        )


def least_s(device: DeviceKind) -> float:
    """Seconds for the baseline, one candidate, and its confirmation."""
    plan = MeasurementPlan()
    whole_s = plan.windows * plan.window_s + _START_S[device]
    candidate_s = plan.windows * SEARCH_WINDOW_S + _START_S[device]
    return (BASELINE_LAUNCHES + 2 * MIN_ROUNDS) * whole_s + candidate_s


def check_budget(budget_s: float, device: DeviceKind) -> None:
    """Raises FieldError for a time in which nothing could be confirmed."""
    least = least_s(device)
    if budget_s < least:
        raise FieldError(
            FIELD,
            f"{budget_s:g}s",
            f"is too short: the baseline, one candidate and its confirmation in {MIN_ROUNDS} "
            f"rounds take about {least:.0f} s here",
            hint=f"use --budget {least:.0f}s at the very least, some minutes to try more than one",
        )

"""What a study may take: time, or money by the price of the machine."""

import math
import re
from dataclasses import dataclass

from autotune.errors import FieldError, UserError
from autotune.loop.launcher import measurement_plan
from autotune.loop.plan import LEAST_LAUNCHES
from autotune.machines import Place
from autotune.model import SIMULATED, DeviceKind
from autotune.scoring.design import MIN_ROUNDS

FIELD = "--budget"
DEFAULT_BUDGET_S = 600.0
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_DURATIONS = "has to be a duration above 0, such as 90s, 30m or 2h"
_SUMS = "has to be a duration or a sum above 0, such as 90s, 30m, 2h or 20usd"
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
        if text.strip().lower().endswith("usd"):
            return cls(usd=_amount(text, FIELD, text.strip()[:-3], _SUMS))
        return cls(seconds=seconds(text, FIELD, _SUMS))

    def in_seconds(self, place: Place, nodes: int) -> float | None:
        """Wall time that it comes to. Raises UserError if there is no price to divide by."""
        if self.usd is None:
            return self.seconds
        price = place.instance.price if place.instance else None
        if price is None:
            simulated = place.machine.instance.startswith(SIMULATED)
            add = ", or add the instance with its price to a file for --instances"
            raise UserError(
                f"{FIELD}: the catalogue has no price for {place.machine.instance}, so "
                f"{self.usd:g} USD can't be turned into time",
                hint=f"give the time, such as --budget 30m{'' if simulated else add}",
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


def seconds(text: str, field: str, rule: str = _DURATIONS) -> float:
    """Seconds in 90s, 30m or 2h; a bare number is seconds. Raises FieldError with `rule`."""
    written = text.strip().lower()
    unit = written[-1:]
    number = written[:-1] if unit in _UNIT_S else written
    return _amount(text, field, number, rule) * _UNIT_S.get(unit, 1.0)


def _amount(text: str, field: str, number: str, rule: str) -> float:
    amount = float(number) if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", number) else 0.0
    if amount <= 0:
        raise FieldError(field, text, rule)
    return amount


def least_s(device: DeviceKind, window_s: float | None = None) -> float:
    """Seconds for the baseline, one candidate, and its confirmation."""
    plan = measurement_plan(window_s)
    return LEAST_LAUNCHES * (plan.windows * plan.window_s + _START_S[device])


def check_budget(
    budget_s: float, device: DeviceKind, window_s: float | None = None, usd: float | None = None
) -> None:
    """Raises FieldError for a time in which nothing could be confirmed; `usd` is what it costs."""
    if budget_s < least_s(device, window_s):
        least = math.ceil(least_s(device, window_s))
        short = "is too short" if usd is None else f"is {budget_s:.3g} s here, which is too short"
        raise FieldError(
            FIELD,
            f"{budget_s:g}s" if usd is None else f"{usd:g}usd",
            f"{short}: the baseline, one candidate and its confirmation in {MIN_ROUNDS} "
            f"rounds take about {least} s here",
            hint=f"use --budget {least}s at the very least, some minutes to try more than one",
        )

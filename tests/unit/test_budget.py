"""Budgets: time or money, and the smallest with which anything can be confirmed."""

import math
from dataclasses import replace

import pytest

from autotune.budget import Budget, check_budget, least_s, seconds
from autotune.errors import FieldError, UserError
from autotune.machines import Place
from autotune.model import DeviceKind
from autotune.space.instances import load_instances
from tests.fakes import MACHINE

P4D = load_instances()["p4d.24xlarge"]
PLACE = Place(machine=replace(MACHINE, instance=P4D.name), instance=P4D)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", Budget(seconds=90)),
        ("90s", Budget(seconds=90)),
        ("1.5m", Budget(seconds=90)),
        (" 2H ", Budget(seconds=7200)),
        ("20usd", Budget(usd=20)),
        ("0.5 USD", None),
        ("0.5USD", Budget(usd=0.5)),
    ],
)
def test_what_a_person_writes(text: str, expected: Budget | None) -> None:
    if expected is None:
        with pytest.raises(FieldError):
            Budget.parse(text)
    else:
        assert Budget.parse(text) == expected


@pytest.mark.parametrize("text", ["", "0", "0usd", "-5m", "5d", "usd", "1e3", "nan", "inf", "٣m"])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(FieldError, match="30m"):
        Budget.parse(text)
    with pytest.raises(FieldError, match=r"--window: .* 30m"):
        seconds(text, "--window")


def test_money_is_time_by_price_and_nodes() -> None:
    assert P4D.price is not None
    hour = Budget(usd=P4D.price.usd_per_hour)
    assert hour.in_seconds(PLACE, nodes=1) == pytest.approx(3600)
    assert hour.in_seconds(PLACE, nodes=4) == pytest.approx(900)
    told = hour.describe(PLACE, nodes=2)
    assert "30 minutes" in told
    assert P4D.price.as_of in told
    assert Budget(seconds=5).describe(PLACE, nodes=1) == ""


def test_without_a_price_money_is_refused_with_a_way_out() -> None:
    with pytest.raises(UserError, match="no price for fake-2c") as caught:
        Budget(usd=5).in_seconds(Place(machine=MACHINE), nodes=1)
    assert "--budget 30m" in caught.value.hint
    assert "--instances" in caught.value.hint
    simulated = Place(machine=replace(MACHINE, instance="simulated:all-equal"))
    with pytest.raises(UserError, match="no price for simulated:all-equal") as caught:
        Budget(usd=5).in_seconds(simulated, nodes=1)
    assert "--instances" not in caught.value.hint, "there is no machine to add"


def test_a_sum_that_is_too_small_is_quoted_as_it_was_typed() -> None:
    with pytest.raises(
        FieldError, match=r"--budget: '0.01usd' is 0\.8\d* s here, which is too short"
    ):
        check_budget(0.8197, DeviceKind.CPU, usd=0.01)


def test_the_smallest_budget_that_works_is_named() -> None:
    least = least_s(DeviceKind.CPU)
    check_budget(least, DeviceKind.CPU)
    with pytest.raises(FieldError, match=f"about {math.ceil(least)} s"):
        check_budget(least - 1, DeviceKind.CPU)
    assert least_s(DeviceKind.CUDA) > least
    assert least_s(DeviceKind.CPU, window_s=0.1) < least
